"""What a change would be worth: the recorded steps as a graph of dependencies, run again.

`build` makes the model of a window of steps, `run` replays it, `changes` alters it, and `predict`
puts the three together with a correction for the profiler. docs/predictions.md has the method.
"""

from __future__ import annotations

from kinetoscope.replay.build import build
from kinetoscope.replay.model import Model
from kinetoscope.replay.run import Replayed, run

__all__ = ["Model", "Replayed", "build", "run"]
