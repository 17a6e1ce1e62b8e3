"""Trackers of runs."""

from .mlflow import MLflowTracker
from .none import NoTracking, UntrackedRun
from .protocol import TrackedRun, Tracker, flatten

__all__ = ["MLflowTracker", "NoTracking", "TrackedRun", "Tracker", "UntrackedRun", "flatten"]
