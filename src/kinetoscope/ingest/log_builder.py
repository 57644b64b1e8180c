"""Records of one compile-log file -> its compilations.

A compilation opens with its first record (an event ``dynamo``, a ``dynamo_start`` or ``recompile_reasons``)
and closes with ``compilation_metrics``; what comes later under its id (lazy backward, autotuning at the
first call) still belongs to it, until the id opens again after ``torch._dynamo.reset``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from kinetoscope.ingest.log_metrics import (
    failure_of,
    guard_ns_of,
    integer,
    skip_reason_of,
    text,
    texts,
    times_of,
)
from kinetoscope.ingest.log_names import name_compilation
from kinetoscope.ingest.log_records import LogRecord
from kinetoscope.ingest.log_spans import OpenSpan, SpanTracker, freeze_spans
from kinetoscope.ingest.log_state import (
    EXTRA_KINDS,
    IGNORED_KINDS,
    OpenCompilation,
    TextKeeper,
)
from kinetoscope.ingest.log_text import (
    parse_break,
    parse_guard_failures,
    parse_guard_tree,
)
from kinetoscope.ingest.log_types import (
    AotGraph,
    CacheResult,
    CacheState,
    Compilation,
    FxGraph,
    SourceFrame,
    Span,
)

__all__ = ["FileBuilder"]

_CACHE = re.compile(r"^(fx_graph|aotautograd)_cache_(hit|miss|bypass)$")
_BYTECODE = re.compile(r"_(?:ORIGINAL|MODIFIED)_BYTECODE$")
_AOT_ID = re.compile(rb"# AOT ID: \['\w*?_(forward|backward|inference)'\]")
_AOT_KINDS = {
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
}
_MAPPINGS = ("inductor_provenance_tracking_node_mappings", "inductor_triton_kernel_to_post_grad_nodes")
_STACKS = "inductor_provenance_tracking_kernel_stack_traces"


class _CacheKey(msgspec.Struct):
    key: Any = None
    cache_bypass_reason: Any = None


class FileBuilder:
    """Takes the records of one file in order; ``finish`` returns its compilations in time order."""

    def __init__(self, source: str, rank: int | None, keeper: TextKeeper) -> None:
        self.source = source
        self.rank = rank
        self.keeper = keeper
        self.counts: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.bad_payloads = 0
        self.torch_version: str | None = None
        self.framework_root: str | None = None
        self.spans = SpanTracker()
        self.loose: list[OpenSpan] = []
        self._strings: dict[int, str] = {}
        self._all: list[OpenCompilation] = []
        self._current: dict[str, OpenCompilation] = {}
        self._handlers: dict[str, Callable[[LogRecord], None]] = {
            "str": self._on_str,
            "chromium_event": self._on_event,
            "dynamo_start": self._on_start,
            "dynamo_graph_break_reason": self._on_break,
            "recompile_reasons": self._on_recompile,
            "dynamo_output_graph": self._on_dynamo_graph,
            "inductor_post_grad_graph": self._on_post_grad,
            "inductor_output_code": self._on_code,
            "dynamo_cpp_guards_str": self._on_guards,
            "compilation_metrics": self._on_metrics,
            "bwd_compilation_metrics": self._on_metrics,
            "compilation_metrics_runtime": self._on_metrics,
            "bwd_compilation_metrics_runtime": self._on_metrics,
            "create_symbol": self._on_symbol,
            "torch_version": self._on_version,
            _STACKS: self._on_provenance,
            **dict.fromkeys(_MAPPINGS, self._on_provenance),
            **dict.fromkeys(_AOT_KINDS, self._on_aot_graph),
        }

    def feed(self, record: LogRecord) -> None:
        """Take one record; one whose content is not as expected is counted and otherwise ignored."""
        kind = record.kind
        self.counts[kind] += 1
        if self.rank is None:
            self.rank = integer(record.header.get("rank"))
        try:
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(record)
            elif (match := _CACHE.match(kind)) is not None:
                self._on_cache(record, match.group(1), match.group(2))
            elif kind in EXTRA_KINDS or _BYTECODE.search(kind) or kind.startswith("<eval_with_key>"):
                self._on_extra(record)
            elif kind not in IGNORED_KINDS:
                self.unknown[kind] += 1
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
            self.bad_payloads += 1

    # ---- which compilation a record belongs to

    def _state(self, compile_id: str, pid: int, *, opens: bool = False) -> OpenCompilation:
        state = self._current.get(compile_id)
        if state is None or (opens and (state.closed or state.started)):
            state = OpenCompilation(compile_id, pid)
            self._current[compile_id] = state
            self._all.append(state)
        return state

    def _of(self, record: LogRecord, *, opens: bool = False) -> OpenCompilation | None:
        compile_id = record.compile_id
        if compile_id is None:
            return None
        state = self._state(compile_id, record.pid, opens=opens)
        state.attempt = max(state.attempt, integer(record.header.get("attempt")) or 0)
        return state

    # ---- one handler for each kind of record

    def _on_str(self, record: LogRecord) -> None:
        text, number = record.body
        self._strings[int(number)] = str(text)
        folder, mark, _ = str(text).replace("\\", "/").partition("/torch/_dynamo/")
        if mark and self.framework_root is None:
            self.framework_root = f"{folder}/torch/"

    def _on_version(self, record: LogRecord) -> None:
        body = msgspec.json.decode(record.payload or b"{}")
        if isinstance(body, dict) and isinstance(body.get("pytorch_version"), str):
            self.torch_version = body["pytorch_version"]

    def _on_event(self, record: LogRecord) -> None:
        span = self.spans.feed(record.payload or b"")
        if span is None:
            return
        if span.compile_id is None:
            self.loose.append(span)
            return
        opens = span.name == "dynamo"
        state = self._state(span.compile_id, record.pid, opens=opens)
        state.spans.append(span)

    def _on_start(self, record: LogRecord) -> None:
        attempt = record.header.get("attempt") or 0
        state = self._of(record, opens=not attempt)
        if state is None:
            return
        state.started = True
        state.stack = self._stack(record.body.get("stack") or [])

    def _stack(self, entries: list[Any]) -> tuple[SourceFrame, ...]:
        keep = self.keeper.keep_source
        return tuple(
            SourceFrame(
                file=self._strings.get(e["filename"], "")
                if isinstance(e["filename"], int)
                else str(e["filename"]),
                line=integer(e.get("line")) or 0,
                function=str(e.get("name") or ""),
                code=str(e["loc"]) if keep and e.get("loc") else None,
            )
            for e in entries
        )

    def _on_break(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is None or record.payload is None:
            return
        text = record.payload.decode("utf-8", "replace")
        found = parse_break(text, state.id, int(record.header.get("attempt") or 0))
        if not self.keeper.keep_source:
            found = replace(found, user_stack=tuple(replace(f, code=None) for f in found.user_stack))
        state.breaks.append(found)

    def _on_recompile(self, record: LogRecord) -> None:
        state = self._of(record, opens=True)
        if state is not None and record.payload is not None:
            state.failures.extend(parse_guard_failures(record.payload.decode("utf-8", "replace")))

    def _on_dynamo_graph(self, record: LogRecord) -> None:
        if (state := self._of(record)) is not None:
            state.dynamo_graph = self.keeper.keep(record)

    def _on_aot_graph(self, record: LogRecord) -> None:
        state, code = self._of(record), self.keeper.keep(record)
        if state is not None and code is not None:
            state.aot_graphs.append(AotGraph(_AOT_KINDS[record.kind], code))  # type: ignore[arg-type]

    def _on_guards(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is not None and record.payload is not None:
            state.tree = parse_guard_tree(record.payload.decode("utf-8", "replace"))

    def _on_symbol(self, record: LogRecord) -> None:
        if (state := self._of(record)) is not None:
            state.dynamic.append(f"{record.body['symbol']} = {record.body.get('source') or '?'}")

    def _on_extra(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is not None and record.place is not None and self.keeper.keep_source:
            state.extra.setdefault(record.kind, []).append(record.place)

    def _on_metrics(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is None:
            return
        body = self.keeper.metrics(record.body)
        if self.torch_version is None:
            self.torch_version = text(body.get("pytorch_version"))
        if record.kind.endswith("_runtime"):
            state.runtime_metrics.append(body)
        elif record.kind.startswith("bwd_"):
            state.backward_metrics.append(body)
        else:
            state.metrics = body
            state.closed = True

    # ---- Inductor's graphs: post-grad graph, code, provenance and cache result arrive in this order

    def _on_post_grad(self, record: LogRecord) -> None:
        if (state := self._of(record)) is not None:
            state.pending = replace(self._pending(state), post_grad=self.keeper.keep(record))

    def _on_code(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is None:
            return
        graph = self._pending(state)
        data = record.payload or b""
        aot_id = _AOT_ID.search(data[:4096])
        backward = aot_id.group(1) == b"backward" if aot_id else b"tangents_1" in data
        path = text(record.body.get("file_path")) or text(record.body.get("filename"))
        state.pending = replace(graph, backward=backward, file_path=path, code=self.keeper.keep(record))
        state.has_code = True

    def _on_provenance(self, record: LogRecord) -> None:
        state = self._of(record)
        if state is None:
            return
        payload = self.keeper.keep(record, is_code=False)
        part = {"kernel_stacks" if record.kind == _STACKS else "node_mappings": payload}
        if state.pending is None and state.graphs:  # some versions write it after the cache's result
            state.graphs[-1] = replace(state.graphs[-1], **part)  # type: ignore[arg-type]
        else:
            state.pending = replace(state.pending or self._new_graph(state), **part)  # type: ignore[arg-type]

    def _on_cache(self, record: LogRecord, cache: str, result: str) -> None:
        state = self._of(record)
        if state is None:
            return
        body = msgspec.json.decode(record.payload or b"{}", type=_CacheKey)
        key = body.key if isinstance(body.key, str) else None
        reason = body.cache_bypass_reason if isinstance(body.cache_bypass_reason, str) else None
        outcome: CacheState = result  # type: ignore[assignment]
        name = "fx" if cache == "fx_graph" else "aot"
        state.caches.append(CacheResult(name, outcome, key, reason))  # type: ignore[arg-type]
        if name == "fx":
            state.pending = replace(state.pending or self._new_graph(state), cache_key=key, state=outcome)
            if state.has_code:
                self._flush(state)

    def _new_graph(self, state: OpenCompilation) -> FxGraph:
        return FxGraph(state.id, None, None, False, None)

    def _pending(self, state: OpenCompilation) -> FxGraph:
        """The graph whose parts arrive; one that has its code already is complete without a result."""
        if state.has_code:
            self._flush(state)
        return state.pending or self._new_graph(state)

    def _flush(self, state: OpenCompilation) -> None:
        if state.pending is not None and state.has_code:
            state.graphs.append(state.pending)
        state.pending, state.has_code = None, False

    # ---- the end

    def finish(self) -> tuple[Compilation, ...]:
        """The compilations of the file, in the order in which they started."""
        seen: dict[str, tuple[int, int]] = {}
        for state in self._all:  # an id that does not rise within its frame: ids started again
            frame, _, tail = state.id.rpartition("/")
            number = int(tail) if tail.isdecimal() else 0
            generation, last = seen.get(frame or state.id, (0, -1))
            state.generation = generation + (number <= last)
            seen[frame or state.id] = state.generation, number
        return tuple(self._freeze(state) for state in self._all)

    def loose_spans(self) -> tuple[Span, ...]:
        """Spans that belong to no compilation."""
        return freeze_spans(self.loose, self.spans.last_ns)

    def _freeze(self, state: OpenCompilation) -> Compilation:
        self._flush(state)
        m, spans = state.metrics, freeze_spans(state.spans, self.spans.last_ns)
        last = state.stack[-1] if state.stack else None
        start_ns, end_ns = times_of(spans, m)
        guarded = m.get("has_guarded_code")
        item = Compilation(
            id=state.id,
            generation=state.generation,
            rank=self.rank,
            pid=state.pid,
            source=self.source,
            code_name=last.function if last else text(m.get("co_name")),
            code_file=last.file if last else text(m.get("co_filename")),
            code_line=last.line if last else integer(m.get("co_firstlineno")),
            stack=state.stack,
            start_ns=start_ns,
            end_ns=end_ns,
            attempts=state.attempt + 1,
            restart_reasons=texts(m.get("restart_reasons")),
            produced_code=bool(guarded) if m and (guarded is not None or m.get("fail_type")) else None,
            fail_type=text(m.get("fail_type")),
            fail_reason=text(m.get("fail_reason")),
            breaks=tuple(state.breaks) or failure_of(state.id, state.attempt, m),
            guard_failures=tuple(state.failures),
            ops=integer(m.get("graph_op_count")),
            guards=integer(m.get("guard_count")),
            guard_ns=guard_ns_of(m, state.tree),
            dynamic=tuple(state.dynamic),
            cudagraph_skip_reason=skip_reason_of(*state.runtime_metrics, *state.backward_metrics, m),
            caches=tuple(state.caches),
            dynamo_graph=state.dynamo_graph,
            aot_graphs=tuple(state.aot_graphs),
            graphs=tuple(state.graphs),
            spans=spans,
            metrics=m,
            backward_metrics=tuple(state.backward_metrics),
            runtime_metrics=tuple(state.runtime_metrics),
            extra={kind: tuple(places) for kind, places in state.extra.items()},
        )
        return name_compilation(item, state.tree, self.framework_root)
