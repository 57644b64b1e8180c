"""Everything about one kernel: its runs, how it was launched, where it comes from, and its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np

from kinetoscope.analyses.joined_kernels import KernelPlaces, Place
from kinetoscope.analyses.kernels import kernels
from kinetoscope.analyses.origins import KINDS, ORIGINS, Work
from kinetoscope.schema import Kind, Origin, SourceState
from kinetoscope.trace import Category, Int64

__all__ = ["CodeLine", "KernelDetails", "KernelRuns", "LaunchConfig", "WhereRun", "details"]

# Launch configurations stand only in the args: so many runs are read, spread evenly over the file.
_RUNS_READ = 200
_RUNS_READ_OF_BIG_FILES = 24
_BIG = 500_000


class KernelRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one origin; ``share`` is of all kernel time of the trace, ``per_step`` how often a step ran"
    " it."""

    origin: Origin
    kind: Kind
    in_graph_replay: bool
    count: int
    per_step: float | None
    total_ns: int
    mean_ns: int
    median_ns: int
    min_ns: int
    max_ns: int
    share: float
    bytes: int | None = None
    flops: int | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None


class LaunchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One launch configuration; ``count`` of the runs whose arguments were read had it."""

    count: int
    median_ns: int
    grid: list[int] | None = None
    block: list[int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy_percent: float | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    tuning: str | None = None
    input_shapes: str | None = None


class CodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the user's program, with its text where the log has it."""

    file: str
    line: int
    function: str | None = None
    code: str | None = None


class WhereRun(msgspec.Struct, frozen=True, kw_only=True):
    """A place that launched the kernel: operator, region, compiled graph; and its code there, from the log.

    ``consumer`` names what takes the kernel's result, where the log has no source line for it. ``file_path``
    and ``code_line`` are where its generated code was written.
    """

    count: int
    total_ns: int
    region: str | None = None
    op: str | None = None
    launch_call: str | None = None
    compile_id: str | None = None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    backward: bool | None = None
    cache_key: str | None = None
    source: list[CodeLine] = []
    source_state: SourceState | None = None
    consumer: str | None = None
    nodes: list[str] = []
    file_path: str | None = None
    code_line: int | None = None
    code: str | None = None


class KernelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel of one trace. ``configs`` come most frequent first, ``places`` most costly first."""

    name: str
    runs: list[KernelRuns]
    runs_read: int
    configs: list[LaunchConfig] = []
    places: list[WhereRun] = []
    kernel_file: str | None = None


def details(work: Work, name: str, places: KernelPlaces) -> KernelDetails:
    """What is known of the kernel called ``name``, which the trace has."""
    trace = work.links.trace
    pieces = np.flatnonzero(trace.columns.name[work.rows] == trace.names.index[name])
    looked, args, op_args = _args(work, pieces)
    return KernelDetails(
        name=name,
        runs=_runs(work, pieces),
        runs_read=len(looked),
        configs=_configs(work, looked, args, op_args),
        places=[_where(work, place) for place in places.of(pieces)],
        kernel_file=next((str(a["kernel_file"]) for a in op_args if a.get("kernel_file")), None),
    )


def only(work: Work, pieces: Int64) -> Work:
    """These pieces of work as work of their own."""
    columns = {
        field.name: getattr(work, field.name)[pieces]
        for field in fields(work)
        if isinstance(getattr(work, field.name), np.ndarray)
    }
    return replace(work, **columns)


def _runs(work: Work, pieces: Int64) -> list[KernelRuns]:
    valid = pieces[work.links.trace.columns.is_valid[work.rows[pieces]]]
    every = work.dur_ns[work.is_kernel]
    whole = int(every.sum())
    found = kernels(work.links, only(work, valid))
    sizes = {(top.origin, top.in_graph_replay): top for top in found.top} if found is not None else {}
    step = work.links.steps.at(_launch_ns(work))
    runs = []
    group = work.origin[valid].astype(np.int64) * 2 + work.is_replay[valid]
    for number in np.unique(group).tolist():
        mine = valid[group == number]
        dur = work.dur_ns[mine]
        origin, replay = ORIGINS[number // 2], bool(number % 2)
        size = sizes.get((origin, replay))
        steps = len(work.links.steps)
        runs.append(
            KernelRuns(
                origin=origin,
                kind=KINDS[work.kind[mine[0]]],
                in_graph_replay=replay,
                count=len(mine),
                per_step=int((step[mine] >= 0).sum()) / steps if steps else None,
                total_ns=int(dur.sum()),
                mean_ns=round(dur.mean()),
                median_ns=round(float(np.median(dur))),
                min_ns=int(dur.min()),
                max_ns=int(dur.max()),
                share=int(dur.sum()) / whole if whole else 0.0,
                bytes=size.bytes if size else None,
                flops=size.flops if size else None,
                gb_per_s=size.gb_per_s if size else None,
                tflop_per_s=size.tflop_per_s if size else None,
            )
        )
    return sorted(runs, key=lambda run: -run.total_ns)


def _launch_ns(work: Work) -> Int64:
    """When each piece was launched; before everything where that is not known."""
    start = work.links.trace.columns.start_ns[np.maximum(work.launched_from, 0)]
    return np.where(work.launched_from >= 0, start, np.iinfo(np.int64).min)


def _args(work: Work, pieces: Int64) -> tuple[Int64, list[dict[str, Any]], list[dict[str, Any]]]:
    """Some of the pieces, evenly spread, their args, and those of the operators that launched them."""
    trace = work.links.trace
    limit = _RUNS_READ if trace.info.events <= _BIG else _RUNS_READ_OF_BIG_FILES
    chosen = pieces[np.unique(np.linspace(0, len(pieces) - 1, min(limit, len(pieces))).astype(np.int64))]
    own = trace.args_of(work.rows[chosen])
    launchers = work.operator_row[chosen]
    known = np.flatnonzero(launchers >= 0)
    by_piece: list[dict[str, Any]] = [{} for _ in range(len(chosen))]
    for index, args in zip(known.tolist(), trace.args_of(launchers[known]), strict=True):
        by_piece[index] = args
    return chosen, own, by_piece


def _configs(
    work: Work, pieces: Int64, args: Sequence[Mapping[str, Any]], op_args: Sequence[Mapping[str, Any]]
) -> list[LaunchConfig]:
    if not work.on_device:
        return []
    found: dict[bytes, tuple[LaunchConfig, list[int]]] = {}
    for piece, own, op in zip(pieces.tolist(), args, op_args, strict=True):
        if work.links.trace.columns.category[work.rows[piece]] != Category.KERNEL:
            continue
        config = LaunchConfig(
            count=0,
            median_ns=0,
            grid=_numbers(own.get("grid")),
            block=_numbers(own.get("block")),
            registers_per_thread=_whole(own.get("registers per thread")),
            shared_memory_bytes=_whole(own.get("shared memory")),
            blocks_per_sm=_number(own.get("blocks per SM")),
            warps_per_sm=_number(own.get("warps per SM")),
            occupancy_percent=_number(own.get("est. achieved occupancy %")),
            num_warps=_whole(op.get("num_warps")),
            num_stages=_whole(op.get("num_stages")),
            tuning=_text(op.get("kernel_kwargs")),
            input_shapes=_text(op.get("Input Dims")),
        )
        key = msgspec.json.encode(config)
        found.setdefault(key, (config, []))[1].append(int(work.dur_ns[piece]))
    made = [
        msgspec.structs.replace(config, count=len(times), median_ns=round(float(np.median(times))))
        for config, times in found.values()
    ]
    return sorted(made, key=lambda config: -config.count)


def _where(work: Work, place: Place) -> WhereRun:
    trace, calls = work.links.trace, work.links.regions.calls
    first = int(place.pieces[0])
    region, operator, launch = (
        int(column[first]) for column in (work.region_call, work.operator_row, work.launched_from)
    )
    item, source = place.compilation, place.source
    is_op = work.on_device and operator >= 0
    return WhereRun(
        count=len(place.pieces),
        total_ns=place.total_ns,
        region=calls.labels[int(calls.label[region])] if region >= 0 else None,
        op=trace.name_of(operator) if is_op else None,
        launch_call=trace.name_of(launch) if work.on_device and launch >= 0 else None,
        compile_id=item.id if item is not None else None,
        function=item.function if item is not None else None,
        file=item.file if item is not None else None,
        line=item.line if item is not None else None,
        backward=source.backward if source is not None else None,
        cache_key=place.cache_key,
        source=[
            CodeLine(file=frame.file, line=frame.line, function=frame.function, code=frame.code)
            for frame in (source.sources if source is not None else ())
        ],
        source_state=source.source_state if source is not None else None,
        consumer=source.consumer if source is not None else None,
        nodes=list(source.nodes) if source is not None else [],
        file_path=source.file_path if source is not None else None,
        code_line=source.code_line if source is not None else None,
        code=source.code if source is not None else None,
    )


def _numbers(value: Any) -> list[int] | None:
    ok = isinstance(value, list) and value and all(isinstance(n, int) for n in value)
    return list(value) if ok else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def _number(value: Any) -> float | None:
    """A finite number, however it was written."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < float("inf") else None


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
