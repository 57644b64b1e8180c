"""The pairs: programs before and after a fix, and what `kinetoscope whatif` is asked of the first.

``held_out`` pairs were set aside before the first measurement: nothing in kinetoscope was tuned on them, and
they are reported apart. ``control``: standard advice that gains nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAIRS", "Pair"]


@dataclass(frozen=True)
class Pair:
    """``options`` ask for the fix; ``name`` is that of a function in `steps.py`."""

    name: str
    family: str
    options: tuple[str, ...]
    held_out: bool = False
    control: bool = False
    warmup: int = 300
    """Steps before a capture begins to measure: half a second, so that the device's clocks have settled."""


_ALL = (
    Pair("decode", "CUDA graphs, inference", ("--cuda-graphs",)),
    Pair("mlp_inference", "CUDA graphs, inference", ("--cuda-graphs",)),
    Pair("convolutions", "CUDA graphs, inference", ("--cuda-graphs",), held_out=True),
    Pair("encoder", "CUDA graphs, inference", ("--cuda-graphs",)),
    Pair("wide_encoder", "CUDA graphs, inference", ("--cuda-graphs",)),
    Pair("cells", "small kernels", ("--cuda-graphs",), held_out=True),
    Pair("mlp_training", "CUDA graphs, training", ("--cuda-graphs",), warmup=200),
    Pair("transformer_training", "CUDA graphs, training", ("--cuda-graphs",), held_out=True, warmup=120),
    Pair("breaks_inference", "graph breaks", ("--no-breaks",)),
    Pair("many_breaks", "graph breaks", ("--no-breaks",), held_out=True),
    Pair("breaks_training", "graph breaks", ("--no-breaks",), warmup=200),
    Pair("break_on_number", "graph breaks", ("--no-breaks", "--no-sync"), held_out=True),
    Pair("number_read", "synchronisation", ("--no-sync",)),
    Pair("synchronised_pieces", "synchronisation", ("--no-sync",), held_out=True),
    Pair("batch_copied", "copies", ("--no-copies",), warmup=60),
    Pair("result_copied", "copies", ("--no-copies",), held_out=True, warmup=28),
    Pair("adamw", "eager optimizer", ("--fused-optimizer",), warmup=80),
    Pair("sgd_by_parameter", "eager optimizer", ("--fused-optimizer",), held_out=True, warmup=120),
    Pair("guards", "guards", ("--no-guards",)),
    Pair("fewer_guards", "guards", ("--no-guards",), held_out=True),
    Pair("slow_kernel", "a kernel", ("--kernel", "spin_kernel=2"), warmup=200),
    Pair("cache_emptied", "allocation", ("--no-allocations",), warmup=120),
    Pair("large_inference", "CUDA graphs, inference", ("--cuda-graphs",), control=True, warmup=150),
    Pair("large_training", "CUDA graphs, training", ("--cuda-graphs",), control=True, warmup=28),
    Pair("breaks_large", "graph breaks", ("--no-breaks",), control=True, warmup=150),
    Pair("number_read_large", "synchronisation", ("--no-sync",), control=True, warmup=150),
    Pair("number_read_small", "synchronisation", ("--no-sync",), held_out=True, control=True),
    Pair("small_copies", "copies", ("--no-copies",), control=True),
    Pair("adam_large", "eager optimizer", ("--fused-optimizer",), held_out=True, control=True, warmup=28),
    Pair("kernel_in_shadow", "a kernel", ("--kernel", "spin_kernel=4"), held_out=True, control=True),
)

PAIRS = {pair.name: pair for pair in _ALL}
