"""Links to results: each analysis is a pure function that returns a part of the report."""

from __future__ import annotations

from kinetoscope.analyses.autograd import autograd
from kinetoscope.analyses.compile_time import compile_time
from kinetoscope.analyses.cuda_graphs import cuda_graphs
from kinetoscope.analyses.device_time import device_time
from kinetoscope.analyses.idle import idle
from kinetoscope.analyses.launches import launches
from kinetoscope.analyses.memory import memory
from kinetoscope.analyses.recompiles import recompiles
from kinetoscope.analyses.regions import regions
from kinetoscope.analyses.steps import steps
from kinetoscope.analyses.user_annotations import user_annotations

__all__ = [
    "autograd",
    "compile_time",
    "cuda_graphs",
    "device_time",
    "idle",
    "launches",
    "memory",
    "recompiles",
    "regions",
    "steps",
    "user_annotations",
]
