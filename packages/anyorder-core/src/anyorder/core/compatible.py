"""Refusing, while a recipe is read, a pair of parts that cannot work."""

from __future__ import annotations

from .errors import IncompatiblePartsError
from .plan import JOINT
from .protocols import MaskBuilder, OrderSampler

_REMEDIES = {
    "consecutive": "use two_stream, which takes any order, or order.type 'left_to_right' or 'prefix'",
    "one_shot": "use two_stream, which takes any order, masks.visibility 'ordered', or order.type 'subset'",
    "permutation": "use order.type 'permutation'",
}


def require_compatible(
    order: OrderSampler,
    masks: MaskBuilder,
    *,
    order_name: str = "",
    masks_name: str = "",
    path: str = "objective",
) -> None:
    """Raise ``IncompatiblePartsError`` where one needs or demands what the other does not have."""
    order_name = order_name or type(order).__name__
    masks_name = masks_name or type(masks).__name__
    nothing: frozenset[str] = frozenset()
    if JOINT in getattr(order, "demands", nothing) - getattr(masks, "offers", nothing):
        raise IncompatiblePartsError(
            f"{order_name!r} with these settings makes given tokens known at one time with the targets, and masks.type "
            f"{masks_name!r} would show them to none: use block_copy, or in_place with visibility 'ordered'",
            path=path,
        )
    missing = sorted(masks.needs - order.traits)
    if missing:
        offers = ", ".join(repr(trait) for trait in sorted(order.traits)) or "no trait"
        raise IncompatiblePartsError(
            f"masks.type {masks_name!r} needs an order with trait {missing[0]!r}; {order_name!r} offers {offers}: "
            f"{_REMEDIES.get(missing[0], 'choose another pair')}",
            path=path,
        )
