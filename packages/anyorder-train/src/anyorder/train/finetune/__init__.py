"""Fine-tuning of a pretrained backbone for classification."""

from .classifier import Classifier, encoder_streams
from .examples import Example, read_examples
from .recipe import FineTuning, load_finetuning
from .run import FineTuned, finetune
from .start import Start
from .tuner import Labelled, Tuner

__all__ = [
    "Classifier",
    "Example",
    "FineTuned",
    "FineTuning",
    "Labelled",
    "Start",
    "Tuner",
    "encoder_streams",
    "finetune",
    "load_finetuning",
    "read_examples",
]
