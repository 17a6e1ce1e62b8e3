"""Common questions about held-out text, for models whose losses cannot be compared."""

from .cloze import Cloze
from .hidden import predictable, sample_spans
from .left_to_right import LeftToRight
from .scoring import UnscorableError, evaluating, score_tokens
from .span_recovery import SpanRecovery, SpanRecoveryStepwise
from .suite import YARDSTICKS, measure_all
from .way import Way
from .windows import held_out_windows
from .yardstick import Measurement, Score, Standing, Yardstick

__all__ = [
    "YARDSTICKS",
    "Cloze",
    "LeftToRight",
    "Measurement",
    "Score",
    "SpanRecovery",
    "SpanRecoveryStepwise",
    "Standing",
    "UnscorableError",
    "Way",
    "Yardstick",
    "evaluating",
    "held_out_windows",
    "measure_all",
    "predictable",
    "sample_spans",
    "score_tokens",
]
