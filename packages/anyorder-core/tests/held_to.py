"""Parts held to a contract, law by law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def case_of(contract: type, make: Callable[[], Any], **settings: Any) -> Any:
    return type("Case", (contract,), {"make": lambda self: make(), **settings})()


def catches(law: str, contract: type, make: Callable[[], Any], **settings: Any) -> bool:
    """Whether a law of the contract fails for a part."""
    try:
        getattr(case_of(contract, make, **settings), f"test_{law}")()
    except AssertionError:
        return True
    return False


def keep(contract: type, make: Callable[[], Any], **settings: Any) -> None:
    """Hold a part to every law of the contract."""
    case = case_of(contract, make, **settings)
    laws = [name for name in dir(case) if name.startswith("test_")]
    assert laws
    for law in laws:
        getattr(case, law)()
