"""From INPUT arguments to traces with what was recorded beside each: compile log, manifest, counters.

A capture directory is one with a manifest (``manifest.json``, one for each rank under a launcher), or with a
``compile_log`` folder: whoever put the two into one directory, and names that directory, says that they
belong together. A trace that is given as a file is joined with what lies beside it only where a manifest
there lists it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kinetoscope.errors import InputError
from kinetoscope.ingest.compile_log import CompileLog, read_compile_log
from kinetoscope.ingest.containers import Source, find_sources
from kinetoscope.ingest.unprofiled import Unprofiled, within
from kinetoscope.trace import Trace, TraceWarning

__all__ = ["Capture", "Input", "LogShelf", "find_inputs"]

_LOG_FOLDER = "compile_log"
_MANIFEST = re.compile(r"^manifest(?:\.rank(\d+))?\.json$")
_SCHEMA = "kinetoscope.capture/"
_LARGEST_BYTES = 64 << 20  # of a small file: one that is larger is not what its name says


@dataclass(frozen=True)
class Capture:
    """What a capture holds of one process beside its trace and its log.

    ``manifest`` is empty where there is none. ``cudagraph_skips`` are reasons with their counts; it is None,
    like ``compile_times``, where the file is missing. ``counters`` are those of ``torch._dynamo.utils``.
    """

    manifest: Mapping[str, Any] = field(default_factory=dict)
    compile_times: str | None = None
    cudagraph_skips: tuple[tuple[str, int], ...] | None = None
    counters: Mapping[str, Any] = field(default_factory=dict)

    def mean_step_ns(self, block: str) -> int | None:
        """Mean time of the steps of a block (``before``, ``profiled``, ``after``), from the manifest."""
        value = within(self.manifest, "steps", block, "mean_ns")
        return value if isinstance(value, int) and value > 0 else None

    def steady_profiled_ns(self) -> int | None:
        """Mean time of a profiled step without the first, where there are more than two, and without those in
        which something compiled, as far as their times are known: neither is a usual step.

        None if nothing else is left.
        """
        mean, steps = self.mean_step_ns("profiled"), self.steps_of("profiled")
        each = within(self.manifest, "steps", "profiled", "host_ns")
        if mean is None or not isinstance(each, list) or len(each) != steps:
            return mean
        unusual = self.compiling_steps | ({0} if steps > 2 else set())
        left = steps - len(unusual)
        if not left:
            return None
        out = [one for step in unusual if isinstance(one := each[step], int) and one > 0]
        rest = mean * steps - sum(out)
        return mean if len(out) < len(unusual) or rest <= 0 else round(rest / left)

    @property
    def compiling_steps(self) -> frozenset[int]:
        """The profiled steps in which a compilation began, counted from the first profiled one."""
        first = within(self.manifest, "window", "first_step")
        begun = within(self.manifest, "compilations", "per_step")
        if type(first) is not int or first < 0 or not isinstance(begun, list):
            return frozenset()
        profiled = begun[first : first + self.steps_of("profiled")]
        return frozenset(step for step, count in enumerate(profiled) if type(count) is int and count > 0)

    @property
    def unprofiled(self) -> Unprofiled | None:
        """The step without a profiler, where the capture timed some."""
        return Unprofiled.of(self.manifest)

    def steps_of(self, block: str) -> int:
        """How many steps that block timed."""
        value = within(self.manifest, "steps", block, "steps")
        return value if isinstance(value, int) else 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the capture could not do, in its own words, and the error that ended the program, if any."""
        said = within(self.manifest, "warnings")
        ended = self._ended_badly()
        return (
            *(str(each) for each in (said if isinstance(said, list) else ())),
            *(() if ended is None else (ended,)),
        )

    def _ended_badly(self) -> str | None:
        if within(self.manifest, "status") == "running":
            return "the program had not ended, or was killed: what a capture saves at its end is missing"
        status, error = (within(self.manifest, "program", name) for name in ("exit_status", "error"))
        if status in (0, None) or not isinstance(error, str):
            return None
        text = f"the program ended with {error.rstrip(': ')}"
        planned, steps = within(self.manifest, "window", "planned_steps"), self.steps_of("profiled")
        if type(planned) is not int or steps >= planned:
            return text
        return f"{text}, when {steps} of {planned} steps had been profiled"

    @property
    def is_cold(self) -> bool:
        """Whether the first call was to be profiled, with what it compiles."""
        return bool(within(self.manifest, "window", "kind") == "cold")

    @property
    def warmup_past_compiling(self) -> int | None:
        """The ``--warmup`` that begins after the last profiled step that compiled; None where none did, or
        where the capture chose no steps to profile."""
        first = within(self.manifest, "window", "first_step")
        chosen = within(self.manifest, "window", "kind") == "steps"
        compiling = self.compiling_steps
        by_run = within(self.manifest, "command") == "run"
        return first + max(compiling) + 1 if by_run and chosen and compiling else None

    @property
    def torch_version(self) -> str | None:
        """The torch that the program ran with."""
        value = within(self.manifest, "versions", "torch")
        return value if isinstance(value, str) else None

    @property
    def compilations(self) -> int:
        """How many compilations the capture saw begin; 0 also where it does not say."""
        value = within(self.manifest, "compilations", "total")
        return value if isinstance(value, int) else 0


@dataclass(frozen=True)
class Input:
    """One trace, the compile log that belongs to it, and what else its capture holds.

    ``log_path`` is a log file or a directory of them; ``log_names`` are those of its files that this trace's
    process wrote, where the manifest says so. ``asked``: the user named the log, it was not found.
    """

    source: Source
    log_path: Path | None = None
    log_names: frozenset[str] | None = None
    asked: bool = False
    capture: Capture | None = None


def find_inputs(paths: Sequence[str], compile_log: str | None = None) -> list[Input]:
    """The traces of all INPUT arguments.

    Raises:
        InputError: one is missing, cannot be read, or holds no trace.
    """
    found = [item for path in paths for item in _inputs(path)]
    if compile_log is None:
        return found
    return [replace(item, log_path=Path(compile_log), log_names=None, asked=True) for item in found]


def _inputs(path: str) -> list[Input]:
    where = Path(path)
    if path != "-" and where.is_dir():
        manifests = _manifests(where)
        if manifests:
            return _of_capture(where, manifests)
        if (where / _LOG_FOLDER).is_dir():
            capture = _capture(where, {}, "")
            sources = _traces_in(where) or find_sources(path)
            return [Input(source, log_path=where / _LOG_FOLDER, capture=capture) for source in sources]
        return [Input(source) for source in find_sources(path)]
    sources = find_sources(path)
    if path != "-" and len(sources) == 1 and sources[0].member is None:
        for rank, manifest in _manifests(where.parent):
            if where.name in _traces_of(manifest):
                return [_of_rank(where.parent, rank, manifest, sources[0])]
    return [Input(source) for source in sources]


def _traces_in(where: Path) -> list[Source]:
    """The traces of a capture whose manifest is damaged; none where there never was one."""
    if not any(_MANIFEST.match(path.name) for path in where.iterdir()):
        return []
    return [s for path in sorted(where.glob("trace*.json.gz")) for s in find_sources(str(path))]


def _manifests(where: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """(rank as text, manifest) of each process of a capture, by rank; a damaged one counts as missing."""
    try:
        names = [match for path in where.iterdir() if (match := _MANIFEST.match(path.name))]
    except OSError:
        return []
    found: list[tuple[str, Mapping[str, Any]]] = []
    for match in sorted(names, key=lambda m: int(m.group(1) or -1)):
        value = _json(where / match.group(0))
        if isinstance(value, dict) and str(value.get("schema", "")).startswith(_SCHEMA):
            found.append((match.group(1) or "", value))
    return found


def _traces_of(manifest: Mapping[str, Any]) -> set[str]:
    entries = manifest.get("traces")
    listed = (
        {str(e.get("file")) for e in entries if isinstance(e, dict)} if isinstance(entries, list) else set()
    )
    return listed | {str(within(manifest, "files", "trace"))}


def _of_capture(where: Path, manifests: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Input]:
    inputs = []
    for rank, manifest in manifests:
        name = within(manifest, "files", "trace")
        # a name, never a path: a manifest is data, and does not send the reader elsewhere
        if isinstance(name, str) and (where / Path(name).name).is_file():
            (source, *_) = find_sources(str(where / Path(name).name))
            inputs.append(_of_rank(where, rank, manifest, source))
    if not inputs:
        raise InputError(f"{where}: the capture has no trace{_why(manifests)}")
    return inputs


def _why(manifests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    for _, manifest in manifests:
        if manifest.get("status") == "running":
            return " (the captured program has not ended, or was killed before it could be saved)"
        name = within(manifest, "files", "trace")
        if isinstance(name, str):
            return f" (its {Path(name).name} is missing)"
        said = [*(manifest.get("warnings") or ()), *(manifest.get("notes") or ())]
        if said:
            return f" ({said[-1]})"
    return ""


def _of_rank(where: Path, rank: str, manifest: Mapping[str, Any], source: Source) -> Input:
    listed = within(manifest, "files", _LOG_FOLDER)
    names = frozenset(Path(str(n)).name for n in listed) if isinstance(listed, list) and listed else None
    folder = where / _LOG_FOLDER
    return Input(
        source,
        log_path=folder if folder.is_dir() else None,
        log_names=names,
        capture=_capture(where, manifest, f".rank{rank}" if rank else ""),
    )


def _capture(where: Path, manifest: Mapping[str, Any], suffix: str) -> Capture:
    skips, counters = (_json(where / f"{stem}{suffix}.json") for stem in ("cudagraph_skips", "counters"))
    return Capture(
        manifest=manifest,
        compile_times=_text(where / f"compile_times{suffix}.txt"),
        cudagraph_skips=_skips(skips),
        counters=counters if isinstance(counters, dict) else {},
    )


def _skips(value: Any) -> tuple[tuple[str, int], ...] | None:
    if not isinstance(value, list):
        return None
    entries = [(e.get("reason"), e.get("count")) for e in value if isinstance(e, dict)]
    return tuple((str(reason), count) for reason, count in entries if isinstance(count, int))


class LogShelf:
    """The compile logs of one command: each is read once, and every trace takes its own part."""

    def __init__(self) -> None:
        self._logs: dict[Path, CompileLog | None] = {}

    def log_for(self, item: Input, trace: Trace) -> tuple[CompileLog | None, tuple[TraceWarning, ...]]:
        """The part of its log that the trace's process wrote, and what should be said about it.

        A capture whose program compiled nothing has no log: that is a log without compilations. None where
        there is no log, or none of this process.

        Raises:
            InputError: a log that the user named cannot be read.
        """
        if item.log_path is None:
            return None, ()
        try:
            log = self._read(item)
        except InputError as error:
            if item.asked:
                raise
            return None, (TraceWarning("compile-log-unread", str(error)),)
        mine = CompileLog() if log is None else _part(log, item, trace)
        seen = item.capture.compilations if item.capture is not None else 0
        if mine is None:
            return None, (_lost(_nothing_of(log, item, trace)),)
        if seen and not mine.compilations:
            return None, (_lost(f"{seen} compilations were seen, and the compile log has none of them"),)
        return mine, tuple(TraceWarning(w.code, w.message, w.count) for w in mine.warnings)

    def _read(self, item: Input) -> CompileLog | None:
        assert item.log_path is not None
        if item.log_path not in self._logs:
            self._logs[item.log_path] = _read_log(item.log_path, asked=item.asked)
        return self._logs[item.log_path]


def _lost(message: str) -> TraceWarning:
    return TraceWarning("compile-log-missing", message)


def _read_log(path: Path, *, asked: bool) -> CompileLog | None:
    """The log; None where a folder that nobody named has no record in it."""
    if not asked and path.is_dir():
        try:
            # torch makes the file with its first record; one that is empty was never written to
            if not any(p.is_file() and p.stat().st_size for p in path.iterdir()):
                return None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return read_compile_log(path)


def _part(log: CompileLog, item: Input, trace: Trace) -> CompileLog | None:
    """The compilations of the trace's process: by the manifest, else by rank, else by process id."""
    sources = {c.source for c in log.compilations}
    if item.log_names is not None:
        return _of_sources(log, {s for s in sources if Path(s).name in item.log_names})
    rank = trace.info.rank
    if rank is not None and log.ranks:
        mine = {c.source for c in log.compilations if c.rank == rank}
        return _of_sources(log, mine) if mine else None
    if len(sources) < 2:
        return log
    pids = {track.pid for track in trace.track_list}
    same_process = {c.source for c in log.compilations if c.pid in pids}
    return _of_sources(log, same_process) if same_process else None


def _nothing_of(log: CompileLog | None, item: Input, trace: Trace) -> str:
    rank = trace.info.rank
    whose = "of this trace's process" if rank is None else f"of rank {rank}"
    there = ", ".join(str(r) for r in log.ranks) if log is not None else ""
    return f"{item.log_path} has nothing {whose}" + (f"; it has ranks {there}" if there else "")


def _of_sources(log: CompileLog, sources: set[str]) -> CompileLog:
    if len(log.files) < 2 and sources:
        return log
    names = {Path(s).name for s in sources}
    return replace(
        log,
        compilations=tuple(c for c in log.compilations if c.source in sources),
        warnings=tuple(w for w in log.warnings if w.message.partition(":")[0] in names),
        loose_spans=(),  # they do not tell whose they are
    )


def _read_small(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST_BYTES else None
    except OSError:
        return None


def _json(path: Path) -> Any:
    data = _read_small(path)
    try:
        return None if data is None else msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(path: Path) -> str | None:
    data = _read_small(path)
    return None if data is None else data.decode("utf-8", "replace")
