"""Common questions about held-out text, for models whose losses cannot be compared."""

from .any_order import AnyOrder
from .cloze import Cloze
from .diffusion_bound import DiffusionBound
from .hidden import predictable, sample_spans
from .left_to_right import LeftToRight
from .pseudo_likelihood import PseudoLikelihood
from .scoring import UnscorableError, evaluating, score_tokens
from .span_recovery import SpanRecovery, SpanRecoveryStepwise
from .suite import ALL_YARDSTICKS, YARDSTICKS, choose_yardsticks, measure_all
from .way import Way
from .windows import held_out_windows
from .yardstick import Measurement, Score, Standing, Yardstick

__all__ = [
    "ALL_YARDSTICKS",
    "YARDSTICKS",
    "AnyOrder",
    "Cloze",
    "DiffusionBound",
    "LeftToRight",
    "Measurement",
    "PseudoLikelihood",
    "Score",
    "SpanRecovery",
    "SpanRecoveryStepwise",
    "Standing",
    "UnscorableError",
    "Way",
    "Yardstick",
    "choose_yardsticks",
    "evaluating",
    "held_out_windows",
    "measure_all",
    "predictable",
    "sample_spans",
    "score_tokens",
]
