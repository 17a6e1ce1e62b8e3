"""Fine-tuning of a pretrained backbone for classification."""

from .classifier import Classifier, Pretrained, encoder_streams, load_pretrained
from .examples import Example, read_examples
from .recipe import FineTuning, load_finetuning
from .run import FineTuned, finetune
from .tuner import Labelled, Tuner

__all__ = [
    "Classifier",
    "Example",
    "FineTuned",
    "FineTuning",
    "Labelled",
    "Pretrained",
    "Tuner",
    "encoder_streams",
    "finetune",
    "load_finetuning",
    "load_pretrained",
    "read_examples",
]
