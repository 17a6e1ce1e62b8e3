"""Loss heads: what is predicted from the states of a stream. And heads for fine-tuning, which read whole rows."""

from .adaptive_softmax import AdaptiveSoftmax
from .attention_pooling import AttentionPooling
from .classification import SequenceClassification
from .cross_entropy import CrossEntropy
from .multiple_choice import MultipleChoice
from .next_sentence import NextSentence
from .pooling import find_token, first_true, last_true, pool_at, pool_mean
from .question_answering import QuestionAnswering, SpanBeam, SpanScores
from .regression import SequenceRegression
from .replaced_tokens import ReplacedTokens
from .row_loss import RowOutput
from .sampled_softmax import SampledSoftmax
from .sentence_order import SentenceOrder
from .summary import SequenceSummary

__all__ = [
    "AdaptiveSoftmax",
    "AttentionPooling",
    "CrossEntropy",
    "MultipleChoice",
    "NextSentence",
    "QuestionAnswering",
    "ReplacedTokens",
    "RowOutput",
    "SampledSoftmax",
    "SentenceOrder",
    "SequenceClassification",
    "SequenceRegression",
    "SequenceSummary",
    "SpanBeam",
    "SpanScores",
    "find_token",
    "first_true",
    "last_true",
    "pool_at",
    "pool_mean",
]
