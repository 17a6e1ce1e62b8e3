"""Sizes by name."""

from __future__ import annotations

from typing import Any

from anyorder.core import RecipeError, did_you_mean

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"n_layer": 4, "d_model": 128, "n_head": 4, "d_inner": 512},
    "small": {"n_layer": 6, "d_model": 256, "n_head": 4, "d_inner": 1024},
    "base": {"n_layer": 12, "d_model": 768, "n_head": 12, "d_inner": 3072},
    "large": {"n_layer": 24, "d_model": 1024, "n_head": 16, "d_inner": 4096},
}
"""``base`` and ``large`` are XLNet's: 116,750,336 and 360,300,800 parameters with 32,000 pieces and a tied head."""


def preset(name: str) -> dict[str, Any]:
    """Keyword arguments of ``TransformerXL`` for a size.

    Raises:
        RecipeError: no preset of that name.
    """
    if name not in PRESETS:
        raise RecipeError(
            f"no preset is called {name!r} (there are {', '.join(PRESETS)}){did_you_mean(name, PRESETS)}",
            path="model.preset",
        )
    return dict(PRESETS[name])
