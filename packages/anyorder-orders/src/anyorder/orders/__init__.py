"""Order samplers and target choice for permutation, masked, prefix and left-to-right language modelling."""

from .all_targets import AllTargets
from .any_order_cut import AnyOrderCut
from .choice import TargetChoice
from .last_fraction import LastFraction
from .left_to_right import LeftToRight
from .mixture import Mixture
from .ngram_spans import NgramSpans
from .noise_level import NoiseLevel
from .permutation import Permutation, plan_from_ranks, repeated_ranks
from .prefix import Prefix
from .recorded import Recorded
from .right_to_left import RightToLeft
from .span_blocks import SpanBlocks
from .subset import Subset

__all__ = [
    "AllTargets",
    "AnyOrderCut",
    "LastFraction",
    "LeftToRight",
    "Mixture",
    "NgramSpans",
    "NoiseLevel",
    "Permutation",
    "Prefix",
    "Recorded",
    "RightToLeft",
    "SpanBlocks",
    "Subset",
    "TargetChoice",
    "plan_from_ranks",
    "repeated_ranks",
]
