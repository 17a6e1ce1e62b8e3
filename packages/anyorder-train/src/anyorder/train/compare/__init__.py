"""Objectives compared on one backbone, one text and one budget."""

from .budget import Budget, UnequalBudgetsError
from .cell import Cell, CellResult, Questions
from .compare import ComparisonFailedError, compare
from .comparison import Comparison
from .process import CellFailedError
from .report import write_report
from .results import Difference, Results
from .statistics import Estimate, estimate, t_quantile

__all__ = [
    "Budget",
    "Cell",
    "CellFailedError",
    "CellResult",
    "Comparison",
    "ComparisonFailedError",
    "Difference",
    "Estimate",
    "Questions",
    "Results",
    "UnequalBudgetsError",
    "compare",
    "estimate",
    "t_quantile",
    "write_report",
]
