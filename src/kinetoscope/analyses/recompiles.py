"""Recompilations as far as region ids tell: several compilations of one frame that ran."""

from __future__ import annotations

from kinetoscope.analyses.breaks import frame_of
from kinetoscope.link import Links
from kinetoscope.schema import Recompiles, RecompileSite


def recompiles(links: Links) -> Recompiles:
    """Frames of which more than one compilation ran, as `0/0` and `0/1`; reasons are in the log alone.

    What was compiled and did not run in the trace is not seen, so the count is a lower bound.
    Without region events (nothing compiled, or torch before 2.2) nothing can be told.
    """
    labels = links.regions.calls.labels
    if not labels:
        return Recompiles()
    frames: dict[str, list[str]] = {}
    for label in labels:
        frame = frame_of(label)
        if frame != label:  # an id that names a frame and one of its compilations
            frames.setdefault(frame, []).append(label)
    again = {frame: sorted(ids, key=_compile_number) for frame, ids in frames.items() if len(ids) > 1}
    sites = [RecompileSite(ids=ids[1:]) for ids in again.values()]
    return Recompiles(count=sum(len(site.ids) for site in sites), source="trace", sites=sites)


def _compile_number(region_id: str) -> int:
    number = region_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0
