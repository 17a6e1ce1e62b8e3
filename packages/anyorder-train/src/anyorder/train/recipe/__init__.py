"""Recipes: a run as data, read strictly."""

from .call import Call
from .combinations import stride_of
from .recipe import Recipe, load_recipe
from .sections import SECTIONS
from .signature import Parameter, first_line, signature

__all__ = ["SECTIONS", "Call", "Parameter", "Recipe", "first_line", "load_recipe", "signature", "stride_of"]
