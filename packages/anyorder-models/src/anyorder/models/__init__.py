"""The two-stream Transformer-XL, as ordinary code; only its seams have a registry."""

from .architecture import BIASES, Architecture
from .attention import RelativeAttention
from .distances import Distances
from .layer import FeedForward, TwoStreamLayer
from .presets import PRESETS, preset
from .pretrained import ABOUT, BACKBONE, LM_BIAS, Pretrained
from .transformer_xl import BiasFactory, TransformerXL

__all__ = [
    "ABOUT",
    "BACKBONE",
    "BIASES",
    "LM_BIAS",
    "PRESETS",
    "Architecture",
    "BiasFactory",
    "Distances",
    "FeedForward",
    "Pretrained",
    "RelativeAttention",
    "TransformerXL",
    "TwoStreamLayer",
    "preset",
]
