"""Checkpoints and Auto classes of transformers for anyorder models, both ways; official TensorFlow checkpoints."""

from .card import model_card
from .export_hf import export_hf
from .from_inputs import from_transformers_inputs
from .import_hf import import_hf
from .import_tf import import_tf
from .to_inputs import to_transformers_inputs

__all__ = [
    "export_hf",
    "from_transformers_inputs",
    "import_hf",
    "import_tf",
    "model_card",
    "to_transformers_inputs",
]
