"""Who wrote each kernel, and what it computes: two separate answers for every device event.

The launching call never decides (cuBLAS launches through the driver, as Triton does). What decides
is where the launch stood on its thread - in a compile phase, inside a compiled graph, in the code
around one - then the kernel's name, then the operator it was launched by.

"The graph" of compiled code is the CompiledFxGraph slice; files before torch 2.9 have none, and
there it is the CompiledFunction or its backward, else the whole region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt

from kinetoscope.analyses import kernel_names
from kinetoscope.analyses.cpu_work import cpu_kernels
from kinetoscope.analyses.operator_names import operator_kind
from kinetoscope.link import Links
from kinetoscope.link.intervals import Cover
from kinetoscope.link.names import Mark
from kinetoscope.schema import Kind, Origin
from kinetoscope.trace import Bool, Category, Flag, Int64, UInt8

ORIGINS: tuple[Origin, ...] = get_args(Origin)
KINDS: tuple[Kind, ...] = get_args(Kind)
#: slices that stand for compiled code or for torch's own machinery, not for an operator
STRUCTURE = (
    Mark.REGION
    | Mark.GRAPH
    | Mark.FORWARD
    | Mark.BACKWARD
    | Mark.LOOKUP
    | Mark.PREGRAPH
    | Mark.PROLOGUE
    | Mark.PHASE
)
# what AOTAutograd's wrapper runs after a graph to write results back into inputs
_WRITES_BACK = frozenset(("aten::copy_", "aten::_foreach_copy_"))

_NUMBER: dict[Origin, int] = {origin: number for number, origin in enumerate(ORIGINS)}
_KIND: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS)}
_IS_LIBRARY = np.array([kind in kernel_names.LIBRARY_KINDS for kind in KINDS])


def origin_number(origin: Origin) -> int:
    """The number that stands for ``origin`` in `Work.origin`."""
    return _NUMBER[origin]


@dataclass(frozen=True, eq=False)
class Work:
    """All work of a trace: device events, or on a CPU-only trace generated kernels and operators.

    Attributes:
        links: what it was found with.
        on_device: false for a CPU-only trace.
        rows: row of each piece of work.
        origin: index into `ORIGINS`.
        kind: index into `KINDS`.
        launched_from: row of the call that launched it (CPU-only: its own row), or -1.
        operator_row: row of the innermost operator that launched it (CPU-only: itself), or -1.
        in_graph: whether it was launched inside a compiled graph, replays included.
        in_phase: whether it was launched while compiling.
        is_replay: whether a graph launch launched it.
        region_call: index of the region call around the launch, or -1.
    """

    links: Links
    on_device: bool
    rows: Int64
    origin: UInt8
    kind: UInt8
    launched_from: Int64
    operator_row: Int64
    in_graph: Bool
    in_phase: Bool
    is_replay: Bool
    region_call: Int64

    @cached_property
    def dur_ns(self) -> Int64:
        """Duration of each piece; 0 where its time is invalid."""
        return self.links.trace.columns.dur_ns[self.rows]

    @cached_property
    def is_kernel(self) -> Bool:
        """Everything but memcpy and memset."""
        found: Bool = self.origin != _NUMBER["memory"]
        return found

    @cached_property
    def is_communication(self) -> Bool:
        """Collectives."""
        found: Bool = self.kind == _KIND["communication"]
        return found

    def of(self, *origins: Origin) -> Bool:
        """Which pieces have one of these origins."""
        wanted = np.array([origin in origins for origin in ORIGINS], np.bool_)
        found: Bool = wanted[self.origin]
        return found


def find_work(links: Links) -> Work:
    """Origin and kind of every piece of work in the trace."""
    launches = links.launches
    if len(launches.device_rows) or len(launches.call_rows):
        return _device_work(links)
    return _cpu_work(links)


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows of CPU threads stand relative to compiled code (index of a call, or -1)."""

    links: Links
    track: Int64
    start_ns: Int64

    def _innermost(self, cover: Cover) -> Int64:
        found: Int64 = cover.innermost(self.track, self.start_ns)
        return found

    @cached_property
    def in_phase(self) -> Bool:
        """Inside a compile phase of the same thread."""
        found: Bool = self.links.compiles.phases.cover.covers(self.track, self.start_ns)
        return found

    @cached_property
    def region_call(self) -> Int64:
        """Innermost region call."""
        return self._innermost(self.links.regions.calls.cover)

    @cached_property
    def in_function(self) -> Bool:
        """Inside a CompiledFunction or its backward."""
        regions = self.links.regions
        found: Bool = self._innermost(regions.forwards.cover) >= 0
        return found | (self._innermost(regions.backwards.cover) >= 0)

    @cached_property
    def in_graph(self) -> Bool:
        """Inside a compiled graph, by what the file's torch version records."""
        regions = self.links.regions
        if len(regions.graphs):
            found: Bool = self._innermost(regions.graphs.cover) >= 0
            return found
        whole: Bool = np.append(regions.forwards_per_call == 0, False)  # the last entry answers for -1
        return self.in_function | whole[self.region_call]


def kinds_by_name(links: Links) -> UInt8:
    """Kind of each distinct name, were it a kernel's."""
    is_collective = (links.marks & np.uint32(Mark.COLLECTIVE)) != 0
    wanted = np.zeros(len(links.trace.names), np.bool_)
    wanted[np.unique(links.trace.columns.name[links.launches.device_rows])] = True
    kinds = np.full(len(wanted), _KIND["other"], np.uint8)
    for number in np.flatnonzero(wanted):
        kinds[number] = _KIND[kernel_names.kind_of(links.trace.names[int(number)])]
    kinds[is_collective] = _KIND["communication"]
    return kinds


def has_cpu_rows(links: Links) -> bool:
    """Whether the CPU's side was recorded: operators or annotations, not only calls of the runtime.

    Without it nothing is known about where work came from.
    """
    category = links.trace.columns.category
    kinds = (Category.CPU_OP, Category.USER_ANNOTATION, Category.PYTHON)
    return any(bool((category == kind).any()) for kind in kinds)


def _device_work(links: Links) -> Work:
    trace, launches = links.trace, links.launches
    c = trace.columns
    rows = launches.device_rows
    name = c.name[rows]
    places = Places(links, launches.launch_track, launches.launch_start_ns)
    kind = kinds_by_name(links)[name]
    kind[(c.flags[rows] & Flag.COLLECTIVE) != 0] = _KIND["communication"]
    category = c.category[rows]
    kind[category != Category.KERNEL] = _KIND["copy"]

    used = np.zeros(len(trace.names), np.bool_)
    used[name] = True

    def named(test: Callable[[str], bool]) -> Bool:
        by_name = np.zeros(len(used), np.bool_)
        for number in np.flatnonzero(used):
            by_name[number] = test(trace.names[int(number)])
        found: Bool = by_name[name]
        return found

    is_inductor = named(kernel_names.is_inductor_triton)
    linked, replayed = launches.is_linked, launches.in_graph_replay
    in_phase = linked & places.in_phase
    in_graph = linked & places.in_graph
    in_region = linked & (places.region_call >= 0)
    is_library = _IS_LIBRARY[kind]
    origin = np.full(len(rows), _NUMBER["unknown"], np.uint8)

    # From here on the later answer is the stronger one.
    direct = linked & ~replayed
    around = in_graph | in_region | (linked & places.in_function)
    operator = _operators(links, launches.launch_row, direct & ~is_inductor & around)
    by_user = named(kernel_names.may_be_user_triton)
    by_user &= direct & (category == Category.KERNEL) & (kind != _KIND["communication"])
    by_user &= ~_under_aten(links, launches.operator_row)
    if has_cpu_rows(links):
        origin[direct] = _NUMBER["eager"]
        by_wrapper = direct & ~in_graph & (places.in_function | (in_region & operator.writes_back))
        origin[by_wrapper] = _NUMBER["compiled_fallback"]
        inside = direct & in_graph
        extern = inside & (is_library | operator.is_library)
        origin[inside] = _NUMBER["compiled_fallback"]
        origin[extern] = _NUMBER["compiled_extern"]
        origin[by_user] = _NUMBER["user_triton"]
    in_graph = in_graph | (replayed & _of_compiled_graphs(launches.launch_row, replayed, around, is_inductor))
    origin[replayed & (around & ~is_library)] = _NUMBER["compiled_fallback"]
    origin[replayed & in_graph & is_library] = _NUMBER["compiled_extern"]
    seen_by_user = np.zeros(len(used), np.bool_)
    seen_by_user[name[origin == _NUMBER["user_triton"]]] = True
    replayed_by_user = replayed & (seen_by_user[name] | named(kernel_names.has_triton_arguments))
    origin[replayed_by_user] = _NUMBER["user_triton"]
    origin[is_inductor] = _NUMBER["inductor_triton"]
    origin[in_phase] = _NUMBER["autotune"]
    origin[category != Category.KERNEL] = _NUMBER["memory"]
    return Work(
        links=links,
        on_device=True,
        rows=rows,
        origin=origin,
        kind=kind,
        launched_from=launches.launch_row,
        operator_row=_without_structure(links, launches.operator_row),
        in_graph=in_graph | (is_inductor & ~in_phase),
        in_phase=in_phase,
        is_replay=replayed,
        region_call=np.where(linked, places.region_call, -1),
    )


def _of_compiled_graphs(launch_row: Int64, replayed: Bool, around: Bool, is_inductor: Bool) -> Bool:
    """Which replays are of compiled code: launched inside it, or with a generated kernel among their own."""
    if not replayed.any():
        return replayed
    compiled = np.unique(launch_row[replayed & (around | is_inductor)])
    return np.isin(launch_row, compiled)


def _without_structure(links: Links, rows: Int64) -> Int64:
    is_operator = (links.marks & np.uint32(STRUCTURE)) == 0
    found = is_operator[links.trace.columns.name[np.maximum(rows, 0)]]
    return np.where((rows >= 0) & found, rows, -1)


def _under_aten(links: Links, operator_row: Int64) -> Bool:
    """Whether the launching operator is one of PyTorch's: those never launch a user's kernel."""
    aten = links.trace.names.where(lambda name: name.startswith("aten::"))
    return (operator_row >= 0) & aten[links.trace.columns.name[np.maximum(operator_row, 0)]]


@dataclass(frozen=True, eq=False)
class _Operators:
    """About the operators between a launch and the compiled code around it."""

    is_library: Bool  # one of them is a gemm, a convolution or an attention
    writes_back: Bool  # the outermost is a copy made by the wrapper


def _operators(
    links: Links, rows: npt.NDArray[np.signedinteger], wanted: Bool, own: bool = False
) -> _Operators:
    """Walk from each wanted row up to the compiled code around it; ``own``: the row itself counts."""
    c, names = links.trace.columns, links.trace.names
    is_library_op = np.zeros(len(names), np.bool_)
    writes_back = np.zeros(len(names), np.bool_)
    for number in np.unique(c.name[c.category == Category.CPU_OP]):
        text = names[int(number)]
        is_library_op[number] = "::" in text and operator_kind(text) in kernel_names.LIBRARY_KINDS
        writes_back[number] = text in _WRITES_BACK
    stops = (links.marks & np.uint32(STRUCTURE)) != 0
    starts, back = np.unique(rows[wanted], return_inverse=True)
    at = starts.astype(np.int64) if own else c.parent[starts].astype(np.int64)
    library = np.zeros(len(starts), np.bool_)
    outermost = np.full(len(starts), -1, np.int64)
    open_ = np.flatnonzero(at >= 0)
    while len(open_):
        name = c.name[at[open_]]
        open_, name = open_[~stops[name]], name[~stops[name]]
        library[open_] |= is_library_op[name]
        is_op = c.category[at[open_]] == Category.CPU_OP
        outermost[open_[is_op]] = at[open_[is_op]]
        at[open_] = c.parent[at[open_]]
        open_ = open_[at[open_] >= 0]
    back_at_top = (outermost >= 0) & writes_back[c.name[np.maximum(outermost, 0)]]
    result = _Operators(np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_))
    result.is_library[wanted] = library[back]
    result.writes_back[wanted] = back_at_top[back]
    return result


def _cpu_work(links: Links) -> Work:
    c = links.trace.columns
    rows, generated = cpu_kernels(links)
    places = Places(links, c.track[rows].astype(np.int64), c.start_ns[rows])
    keep = generated | ~places.in_phase  # an operator in a compile phase works on fake tensors
    rows, generated = rows[keep], generated[keep]
    places = Places(links, c.track[rows].astype(np.int64), c.start_ns[rows])
    kind = _cpu_kinds(links, rows)
    operator = _operators(links, rows, np.ones(len(rows), np.bool_), own=True)
    in_graph, in_region = places.in_graph, places.region_call >= 0
    origin = np.full(len(rows), _NUMBER["eager"], np.uint8)
    origin[places.in_function | (in_region & operator.writes_back)] = _NUMBER["compiled_fallback"]
    origin[in_graph] = _NUMBER["compiled_fallback"]
    origin[in_graph & (_IS_LIBRARY[kind] | operator.is_library)] = _NUMBER["compiled_extern"]
    origin[generated] = _NUMBER["inductor_cpp"]
    origin[places.in_phase] = _NUMBER["autotune"]
    return Work(
        links=links,
        on_device=False,
        rows=rows,
        origin=origin,
        kind=kind,
        launched_from=rows,
        operator_row=rows,
        in_graph=in_graph | (generated & ~places.in_phase),
        in_phase=places.in_phase,
        is_replay=np.zeros(len(rows), np.bool_),
        region_call=places.region_call,
    )


def _cpu_kinds(links: Links, rows: Int64) -> UInt8:
    c, names = links.trace.columns, links.trace.names
    kinds = np.zeros(len(names), np.uint8)
    for number in np.unique(c.name[rows]):
        text = names[int(number)]
        kind = kernel_names.kind_of(text) if kernel_names.is_inductor_cpp(text) else operator_kind(text)
        kinds[number] = _KIND[kind]
    return kinds[c.name[rows]]
