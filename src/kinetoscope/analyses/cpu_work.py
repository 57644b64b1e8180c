"""The work of a CPU-only trace: kernels that Inductor generated in C++, and operators.

An operator counts as a kernel where it calls no other that does work; the copies and fills that it
makes for itself are part of it. So every nanosecond is counted once, and ``aten::addmm`` is one
kernel although it calls ``aten::copy_`` for its bias.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.analyses import kernel_names, operator_names
from kinetoscope.link import Links
from kinetoscope.link.ancestors import nearest_around
from kinetoscope.link.names import Mark, marked
from kinetoscope.trace import Bool, Category, Int32, Int64

_GENERATED, _OPERATOR, _HELPER = 1, 2, 3


def cpu_kernels(links: Links) -> tuple[Int64, Bool]:
    """Rows of generated kernels and working operators, and which of them were generated."""
    trace = links.trace
    c, names = trace.columns, trace.names
    is_op = (c.category == Category.CPU_OP) & c.is_valid
    is_op &= ~marked(links.marks, c.name, Mark.PHASE | Mark.PHASE_DATA)
    sort = np.zeros(len(names), np.uint8)
    for number in np.unique(c.name[is_op]):
        sort[number] = _sort_of(names[int(number)])
    what = np.where(is_op, sort[c.name], 0)
    calls_others = _ancestors_of(c.parent, np.flatnonzero(what == _OPERATOR))
    is_kernel = (what == _GENERATED) | ((what == _OPERATOR) & ~calls_others)
    helpers = np.flatnonzero(what == _HELPER)
    is_kernel[helpers] = nearest_around(c.parent, helpers, is_kernel) < 0
    rows = np.flatnonzero(is_kernel)
    return rows, what[rows] == _GENERATED


def _sort_of(name: str) -> int:
    if kernel_names.is_inductor_cpp(name):
        return _GENERATED
    if not operator_names.is_work(name):
        return 0
    return _HELPER if name.rpartition("::")[2] in operator_names.HELPERS else _OPERATOR


def _ancestors_of(parent: Int32, rows: Int64) -> Bool:
    """Rows around any of these rows."""
    found = np.zeros(len(parent), np.bool_)
    rows = np.unique(parent[rows])
    while len(rows):
        rows = rows[rows >= 0]
        rows = rows[~found[rows]]
        found[rows] = True
        rows = np.unique(parent[rows])
    return found
