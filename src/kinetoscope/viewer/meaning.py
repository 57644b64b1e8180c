"""What a slice means, as a small number: the viewer's colours stand for these and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kinetoscope.analyses.origins import KINDS, ORIGINS, Work
from kinetoscope.link import Links
from kinetoscope.link.names import Mark, marked
from kinetoscope.schema import Origin
from kinetoscope.trace import Category, UInt8

#: name and what the legend says; the position is the number
MEANINGS: tuple[tuple[str, str], ...] = (
    ("other", "Other"),
    ("annotation", "Annotation"),
    ("call", "Runtime or driver call"),
    ("sync", "Wait for the device"),
    ("python", "Python function"),
    ("region", "Compiled region"),
    ("triton", "Inductor Triton or C++"),
    ("user_triton", "User Triton"),
    ("library", "Library call of compiled code"),
    ("fallback", "Fall-back in compiled code"),
    ("eager", "Eager"),
    ("communication", "Communication"),
    ("copy", "Copy or fill"),
    ("compile", "Compilation"),
    ("idle", "Device idle"),
)
NUMBER: Mapping[str, int] = {name: number for number, (name, _) in enumerate(MEANINGS)}

#: meaning of a slice of which only the category is known
OF_CATEGORY: Mapping[Category, str] = {
    Category.CPU_OP: "eager",
    Category.USER_ANNOTATION: "annotation",
    Category.GPU_ANNOTATION: "annotation",
    Category.PYTHON: "python",
    Category.RUNTIME: "call",
    Category.DRIVER: "call",
    Category.KERNEL: "eager",
    Category.MEMCPY: "copy",
    Category.MEMSET: "copy",
    Category.SYNC: "sync",
}
_OF_ORIGIN: Mapping[Origin, str] = {
    "inductor_triton": "triton",
    "user_triton": "user_triton",
    "inductor_cpp": "triton",
    "autotune": "compile",
    "compiled_extern": "library",
    "compiled_fallback": "fallback",
    "eager": "eager",
    "memory": "copy",
    "unknown": "other",
}
#: frames that stand around the phases of a compilation
_AROUND_PHASES = frozenset({"dynamo", "entire_frame_compile", "entire_backward_compile"})
_MACHINERY = (
    Mark.REGION | Mark.GRAPH | Mark.FORWARD | Mark.BACKWARD | Mark.LOOKUP | Mark.PREGRAPH | Mark.PROLOGUE
)


def by_category(links: Links) -> UInt8:
    """Meaning of every slice as far as its category and its own name tell."""
    c = links.trace.columns
    table = np.zeros(len(Category), np.uint8)
    for category, name in OF_CATEGORY.items():
        table[category] = NUMBER[name]
    found: UInt8 = table[c.category]
    marks = links.marks
    on_cpu = (c.category == Category.CPU_OP) | (c.category == Category.USER_ANNOTATION)
    on_cpu |= c.category == Category.OTHER
    found[on_cpu & marked(marks, c.name, _MACHINERY)] = NUMBER["region"]
    # the autograd engine's frame around a node: what it does stands inside
    engine = links.trace.names.where(lambda name: name.startswith("autograd::engine::"))
    found[on_cpu & engine[c.name]] = NUMBER["annotation"]
    found[on_cpu & marked(marks, c.name, Mark.PHASE | Mark.PHASE_DATA)] = NUMBER["compile"]
    around = links.trace.names.where(lambda name: name in _AROUND_PHASES)
    found[on_cpu & around[c.name]] = NUMBER["compile"]
    found[c.is_call & marked(marks, c.name, Mark.SYNC)] = NUMBER["sync"]
    found[c.is_device & marked(marks, c.name, Mark.COLLECTIVE)] = NUMBER["communication"]
    return found


def by_origin(links: Links, work: Work) -> UInt8:
    """Meaning of every slice, with device work by who wrote it and operators by where they ran."""
    c = links.trace.columns
    found = by_category(links)
    operators = (c.category == Category.CPU_OP) & (found == NUMBER["eager"])
    regions = links.regions
    if len(regions.calls) or len(regions.graphs) or len(regions.backwards):
        if len(regions.graphs):
            compiled = regions.graph_call_of_row >= 0
        else:
            compiled = (regions.region_call_of_row >= 0) | (regions.backwards.of_rows >= 0)
        triton = links.trace.names.where(lambda name: name.startswith("triton_"))[c.name]
        found[operators & compiled] = NUMBER["library"]
        found[operators & compiled & triton] = NUMBER["triton"]
    if len(links.compiles.phases):
        found[operators & links.compiles.covers_row] = NUMBER["compile"]
    table = np.array([NUMBER[_OF_ORIGIN[origin]] for origin in ORIGINS], np.uint8)
    is_communication = work.kind == KINDS.index("communication")
    meant = np.where(is_communication, NUMBER["communication"], table[work.origin])
    found[work.rows] = meant.astype(np.uint8)
    return found
