"""The optional package behind import and export."""

from __future__ import annotations

import importlib.util

from anyorder.core import RecipeError


def need_hf() -> None:
    """Raise ``RecipeError`` where ``anyorder-hf`` is not installed."""
    if importlib.util.find_spec("anyorder.hf") is None:
        raise RecipeError("anyorder-hf is not installed; install it with: pip install 'anyorder[hf]'")
