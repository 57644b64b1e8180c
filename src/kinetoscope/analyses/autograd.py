"""Compiled forwards with their backwards."""

from __future__ import annotations

from kinetoscope.link import Links
from kinetoscope.schema import Autograd, AutogradPair, LinkedBy
from kinetoscope.trace import NONE


def autograd(links: Links) -> Autograd:
    """Pairs of CompiledFunction and CompiledFunctionBackward, in time order of the forwards.

    ``backward_device_ns`` is null where no device event was linked to a launch at all.
    """
    found, regions = links.pairs, links.regions
    sequence = links.trace.columns.sequence
    forwards, backwards, calls = regions.forwards, regions.backwards, regions.calls
    knows_device = bool(links.launches.is_linked.any())
    pairs = []
    for number in range(len(found)):
        forward, backward = int(found.forward[number]), int(found.backward[number])
        call = int(found.region_of_forward[number])
        given = int(sequence[forwards.rows[forward]])
        pairs.append(
            AutogradPair(
                sequence_number=None if given == NONE else given,
                forward_ns=int(forwards.dur_ns[forward]),
                backward_ns=int(backwards.dur_ns[backward]),
                backward_device_ns=int(found.device_ns_of_backwards[backward]) if knows_device else None,
                region=None if call < 0 else calls.labels[int(calls.label[call])],
            )
        )
    by_flow = int(found.by_flow.sum())
    return Autograd(
        pairs=len(found),
        unpaired_forward=len(found.unpaired_forwards),
        unpaired_backward=len(found.unpaired_backwards),
        linked_by=LinkedBy(fwdbwd=by_flow, sequence_number=len(found) - by_flow),
        list=pairs,
    )
