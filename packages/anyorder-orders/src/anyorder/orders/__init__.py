"""Order samplers and target choice for permutation, masked, prefix and left-to-right language modelling."""

from .all_targets import AllTargets
from .choice import TargetChoice
from .last_fraction import LastFraction
from .left_to_right import LeftToRight
from .ngram_spans import NgramSpans
from .permutation import Permutation, plan_from_ranks, repeated_ranks
from .prefix import Prefix
from .recorded import Recorded
from .subset import Subset

__all__ = [
    "AllTargets",
    "LastFraction",
    "LeftToRight",
    "NgramSpans",
    "Permutation",
    "Prefix",
    "Recorded",
    "Subset",
    "TargetChoice",
    "plan_from_ranks",
    "repeated_ranks",
]
