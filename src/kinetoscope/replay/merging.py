"""Launches of one call, and how what they launched becomes one block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinetoscope.link.regions import Calls
from kinetoscope.replay.model import Blocks, Events, Item, Model, lengths_of_blocks
from kinetoscope.trace import Int64


@dataclass(frozen=True, eq=False)
class LaunchItems:
    """Launches among the items of a model, by the slices that they are made in.

    Attributes:
        number: of each launch among the items.
        after: how many segments come before it.
        of_call: index of the innermost call around it, -1 for none.
    """

    number: Int64
    after: Int64
    of_call: Int64

    @classmethod
    def of(cls, model: Model, calls: Calls) -> LaunchItems:
        """The launches of ``model``, by ``calls``; what runs ahead aside belongs to none."""
        items, blocks = model.items, model.blocks
        number = np.flatnonzero(items.kind == Item.LAUNCH)
        block = items.argument[number]
        inside = calls.at_rows(blocks.row[block]) if len(calls) else np.full(len(block), -1, np.int64)
        if model.aside >= 0:
            inside = np.where(blocks.stream[block] == model.aside, -1, inside)
        return cls(number, items.after[number], inside)

    def of_this(self, call: int, first: int, last: int) -> Int64:
        """Launches that this call makes itself, after segment ``first`` has begun, until ``last`` begins.

        Not those that another thread makes meanwhile.
        """
        here = slice(*np.searchsorted(self.after, [first, last], side="right"))
        found: Int64 = self.number[here][self.of_call[here] == call]
        return found


def merged(model: Model, target: Int64, gap_ns: int) -> Model:
    """Blocks joined into the block that ``target`` names, with this gap between them.

    Who waited for one of them waits for all, and all wait for what one of them waited for.
    """
    events = model.events
    block = target[events.block]
    was_first = np.append(True, np.diff(events.block) != 0)[: len(block)]
    gap = np.where(was_first & (block != events.block), gap_ns, events.gap_ns)
    order = np.argsort(block, kind="stable")
    joined = Events(block[order], events.row[order], events.dur_ns[order], gap[order])
    waits = model.waits
    of_block = waits.scope <= -2
    scope = np.where(of_block, -2 - target[np.where(of_block, -2 - waits.scope, 0)], waits.scope)
    return replace(
        model,
        events=joined,
        blocks=_joined(model.blocks, target, lengths_of_blocks(joined, len(model.blocks))),
        waits=replace(waits, scope=scope),
    )


def _joined(blocks: Blocks, target: Int64, length_ns: Int64) -> Blocks:
    """The blocks with what those depend on that are part of others now."""
    behind = np.where(blocks.behind >= 0, target[np.maximum(blocks.behind, 0)], -1)
    behind[behind == target] = -1
    since = np.where(behind >= 0, blocks.behind_ns, 0)
    # of several that one block waits for, the one that was launched last
    order = np.lexsort((since, behind, target))
    last = order[np.append(target[order][1:] != target[order][:-1], True)[: len(order)]]
    whole = target[last]
    behind[whole], since[whole] = behind[last], since[last]
    extra = np.bincount(target, blocks.extra_ns, len(blocks)).astype(np.int64)
    return replace(blocks, length_ns=length_ns, behind=behind, behind_ns=since, extra_ns=extra)
