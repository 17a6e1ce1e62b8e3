"""The two-stream Transformer-XL, as ordinary code; only its seams have a registry."""

from .attention import RelativeAttention
from .distances import Distances
from .layer import FeedForward, TwoStreamLayer
from .presets import PRESETS, preset
from .transformer_xl import BiasFactory, TransformerXL

__all__ = [
    "PRESETS",
    "BiasFactory",
    "Distances",
    "FeedForward",
    "RelativeAttention",
    "TransformerXL",
    "TwoStreamLayer",
    "preset",
]
