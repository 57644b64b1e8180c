"""Walks up the nesting of slices, many rows at once."""

from __future__ import annotations

import numpy as np

from kinetoscope.trace import Bool, Int32, Int64


def nearest_around(parent: Int32, rows: Int64, wanted: Bool) -> Int64:
    """For each row, the innermost slice around it that is ``wanted`` (a column), or -1.

    A row is never its own answer; a row of -1 gives -1.
    """
    found = np.where(rows >= 0, parent[np.maximum(rows, 0)], -1).astype(np.int64)
    open_ = np.flatnonzero(found >= 0)
    open_ = open_[~wanted[found[open_]]]
    while len(open_):  # as often as the deepest nesting
        above = parent[found[open_]].astype(np.int64)
        found[open_] = above
        open_ = open_[above >= 0]
        open_ = open_[~wanted[found[open_]]]
    return found
