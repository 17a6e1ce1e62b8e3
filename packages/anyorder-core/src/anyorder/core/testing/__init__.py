"""Contract tests: what every part must keep, a stranger's as much as ours.

Subclass a contract in a test file and override ``make``:

    from anyorder.core.testing import OrderSamplerContract

    class TestZigzag(OrderSamplerContract):
        def make(self):
            return Zigzag()

Needs no pytest to import, so that a command can audit a recipe for leaks too.
"""

from .attention import AttentionBackendContract
from .examples import example_batches, example_plan, overlapping_batches
from .leaks import AuditedSegment, Leak, find_leaks
from .losses import LossHeadContract
from .masks import MaskBuilderContract
from .memory import MemoryContract
from .orders import OrderSamplerContract
from .perturbation import Moved, perturbation_leaks
from .positions import PositionBiasContract
from .reference import ReferenceMemory, ReferenceTwoStream, reference_attention

__all__ = [
    "AttentionBackendContract",
    "AuditedSegment",
    "Leak",
    "LossHeadContract",
    "MaskBuilderContract",
    "MemoryContract",
    "Moved",
    "OrderSamplerContract",
    "PositionBiasContract",
    "ReferenceMemory",
    "ReferenceTwoStream",
    "example_batches",
    "example_plan",
    "find_leaks",
    "overlapping_batches",
    "perturbation_leaks",
    "reference_attention",
]
