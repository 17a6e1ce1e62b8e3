"""The types every part speaks, the seams between parts, and the one visibility rule."""

from .batch import PADDING_DOC, TokenBatch
from .bias import DistanceTerm, MatchTerm, ScoreBias, ScoreMod, ScoreTerm, contiguous_columns, relative_shift
from .compatible import require_compatible
from .draws import Draws
from .dropout import Dropout, draw_bits, survivors
from .errors import (
    AnyorderError,
    BackendUnsupportedError,
    CheckpointError,
    DataError,
    IncompatiblePartsError,
    PluginError,
    RecipeError,
    did_you_mean,
)
from .last_value import LastValue
from .plan import CONSECUTIVE, JOINT, ONE_SHOT, PERMUTATION, Plan
from .protocols import (
    AttentionBackend,
    AttentionRequest,
    Backbone,
    BackboneOutput,
    LossHead,
    LossOutput,
    MaskBuilder,
    Memory,
    OrderSampler,
    PositionBias,
)
from .registry import SEAMS, available, find
from .slots import DEATH, QUERY_ID, SPAN, TARGETS, Readout, Slots, Streams
from .state import MEMORY_BIRTH, MemoryState
from .struct import TensorStruct, map_tensors
from .visibility import MaskMod, Visibility
from .vocab import Vocab

__all__ = [
    "CONSECUTIVE",
    "DEATH",
    "JOINT",
    "MEMORY_BIRTH",
    "ONE_SHOT",
    "PADDING_DOC",
    "PERMUTATION",
    "QUERY_ID",
    "SEAMS",
    "SPAN",
    "TARGETS",
    "AnyorderError",
    "AttentionBackend",
    "AttentionRequest",
    "Backbone",
    "BackboneOutput",
    "BackendUnsupportedError",
    "CheckpointError",
    "DataError",
    "DistanceTerm",
    "Draws",
    "Dropout",
    "IncompatiblePartsError",
    "LastValue",
    "LossHead",
    "LossOutput",
    "MaskBuilder",
    "MaskMod",
    "MatchTerm",
    "Memory",
    "MemoryState",
    "OrderSampler",
    "Plan",
    "PluginError",
    "PositionBias",
    "Readout",
    "RecipeError",
    "ScoreBias",
    "ScoreMod",
    "ScoreTerm",
    "Slots",
    "Streams",
    "TensorStruct",
    "TokenBatch",
    "Visibility",
    "Vocab",
    "available",
    "contiguous_columns",
    "did_you_mean",
    "draw_bits",
    "find",
    "map_tensors",
    "relative_shift",
    "require_compatible",
    "survivors",
]
