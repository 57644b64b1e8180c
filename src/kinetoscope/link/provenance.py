"""From a kernel's name to its generated code, its graph nodes and the user's source lines.

What Inductor stores with a cached graph (kernel stacks, source comments) names the lines of the run that
filled the cache. Such a line is ``exact`` only when this run's own graphs confirm it:

* compiled in this run: the kernel's stack traces where this graph has their lines, else the comments of
  this run's post-grad graph;
* Inductor's graph cached, AOTAutograd's new: the same node in this run's AOT graph (node names are part of
  the cache key), or a node that comes from the same operation;
* both cached: kernel -> post-grad node -> pre-grad node -> this run's Dynamo graph (its names are part of
  the key);
* else the cached lines translated, where every node known in both runs moved from a line to one other.

Otherwise the cached lines are given with state ``cached``. A kernel without source nodes has no lines and
no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from kinetoscope.ingest.log_records import Payload
from kinetoscope.ingest.log_text import parse_stack_text
from kinetoscope.ingest.log_types import Compilation, CompileLog, FxGraph, SourceFrame
from kinetoscope.link.generated_code import GeneratedKernel, consumer_of, generated_kernels, node_sources

__all__ = ["GraphCall", "KernelSource", "Provenance", "plain_kernel_name"]

SourceState = Literal["exact", "cached"]
_Table = Mapping[str, tuple[str, ...]]
_Sources = tuple[tuple[SourceFrame, ...], SourceState | None]
_CPP_PREFIX = re.compile(r"^graph_\d+_(?=cpp_)")
_NOTHING: _Sources = ((), None)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Everything the log tells about one kernel.

    ``sources``: the innermost user line of each operation it computes, in the kernel's order.
    ``compile_ids`` has several entries where the look-up left it open which compilation ran it; the lines
    are then those of all. ``consumer`` names the operator that takes its result, where it has no source
    nodes. ``code`` and ``code_line`` are its definition in ``file_path``.
    """

    kernel: str
    compile_ids: tuple[str, ...]
    cache_keys: tuple[str, ...]
    backward: bool
    file_path: str | None
    code: str | None
    code_line: int | None
    calls: int | None
    nodes: tuple[str, ...]
    sources: tuple[SourceFrame, ...]
    source_state: SourceState | None
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One call in a graph's generated code, in call order: a kernel, or a library call such as
    ``extern_kernels.mm``."""

    name: str
    index: int
    sources: tuple[SourceFrame, ...]
    source_state: SourceState | None


def plain_kernel_name(name: str) -> str:
    """A kernel's name as the generated code has it; ``graph_N_`` before a C++ kernel is no identity."""
    return _CPP_PREFIX.sub("", name)


class Provenance:
    """Look-ups over one log; parsed graphs are remembered. Build one per log (of one rank)."""

    def __init__(self, log: CompileLog) -> None:
        self._log = log
        self._owners = {id(g): item for item in log.compilations for g in item.graphs}
        self._nodes: dict[tuple[str, int], Mapping[str, SourceFrame | None]] = {}
        self._json: dict[tuple[str, int], Mapping[str, _Table]] = {}
        self._kernels: dict[tuple[str, int], Mapping[str, GeneratedKernel]] = {}
        self._moved: dict[int, Mapping[tuple[str, int], SourceFrame | None]] = {}

    def kernel(
        self,
        name: str,
        *,
        compile_id: str | None = None,
        cache_key: str | None = None,
        epoch_ns: int | None = None,
    ) -> KernelSource | None:
        """What is known of a kernel, run by that region (at that time) or inside that ``CompiledFxGraph``
        key.

        With both, the region decides among the key's compilations. With neither, every graph that has the
        kernel counts. None where no graph of the log has it.
        """
        plain = plain_kernel_name(name)
        found = [
            (graph, label)
            for graph in self._graphs(compile_id, cache_key, epoch_ns)
            if (label := self._label(graph, plain)) is not None
        ]
        return self._describe(plain, found) if found else None

    def kernels(self, graph: FxGraph) -> Mapping[str, GeneratedKernel]:
        """The kernels that a graph's generated code defines; none where the log was read without source."""
        return self._parsed_code(graph)

    def calls(self, graph: FxGraph) -> tuple[GraphCall, ...]:
        """The calls of a graph in order, with their source lines, as far as provenance was recorded."""
        found = []
        for handle in self._stacks(graph):
            name, _, index = handle.rpartition(":")
            if name and index.isdigit():
                found.append(GraphCall(name, int(index), *self._sources(graph, handle)))
        return tuple(sorted(found, key=lambda c: c.index))

    # ---- which graphs

    def _graphs(self, compile_id: str | None, cache_key: str | None, epoch_ns: int | None) -> list[FxGraph]:
        items: Sequence[Compilation] = self._log.compilations
        if compile_id is not None:
            item = self._log.compilation_for(compile_id, epoch_ns)
            mine = [item] if item is not None else []
            if cache_key is None or any(g.cache_key == cache_key for c in mine for g in c.graphs):
                items = mine
        return [g for c in items for g in c.graphs if cache_key is None or g.cache_key == cache_key]

    def _label(self, graph: FxGraph, plain: str) -> str | None:
        """What the graph calls the kernel, None if it does not have it."""
        kernels = self._parsed_code(graph)
        if plain in kernels:
            return plain
        own = next((k.name for k in kernels.values() if k.function == plain), None)
        if own is not None:
            return own
        handles = self._stacks(graph).keys()
        return plain if any(_same_kernel(h, plain) for h in handles) else None

    def _describe(self, plain: str, found: Sequence[tuple[FxGraph, str]]) -> KernelSource:
        graph, label = found[0]
        parsed = self._parsed_code(graph).get(label)
        parts = [self._sources(g, own) for g, own in found]
        sources = tuple(dict.fromkeys(f for frames, _ in parts for f in frames))
        states = {state for frames, state in parts if frames}
        state: SourceState | None = "cached" if "cached" in states else "exact" if states else None
        code = graph.code.text() if graph.code is not None and not sources else None
        return KernelSource(
            kernel=plain,
            compile_ids=tuple(dict.fromkeys(g.compile_id for g, _ in found)),
            cache_keys=tuple(dict.fromkeys(g.cache_key for g, _ in found if g.cache_key is not None)),
            backward=graph.backward,
            file_path=graph.file_path,
            code=parsed.text if parsed else None,
            code_line=parsed.line if parsed else None,
            calls=parsed.calls if parsed else None,
            nodes=self._post_nodes(graph, label),
            sources=sources,
            source_state=state,
            consumer=consumer_of(code, label) if code is not None else None,
        )

    # ---- source lines of one kernel in one graph

    def _sources(self, graph: FxGraph, label: str) -> _Sources:
        item = self._owners[id(graph)]
        stacks = self._innermost(graph, label)
        nodes = self._post_nodes(graph, label)
        if graph.state != "hit":
            if stacks:  # without the graph, a backward kernel's traces may be another graph's
                return stacks, "cached" if graph.backward and graph.post_grad is None else "exact"
            lines = self._lines(nodes, self._comments(graph.post_grad)) or self._from_aot(item, graph, nodes)
            return (lines, "exact") if lines else _NOTHING
        if item.aot_state == "hit":
            lines = self._from_dynamo(item, graph, nodes)
        else:
            lines = self._from_aot(item, graph, nodes)
        stale = stacks or self._lines(nodes, self._comments(graph.post_grad))
        lines = lines or self._translated(item, graph, stale)
        if lines:
            return lines, "exact"
        return (stale, "cached") if stale else _NOTHING

    def _innermost(self, graph: FxGraph, label: str) -> tuple[SourceFrame, ...]:
        """Innermost frames of the kernel's stack traces, those of lines that are in this graph.

        torch collects the traces of lazily compiled backward graphs under names that repeat, so a graph's
        record can hold lines of graphs compiled before it.
        """
        own = {(f.file, f.line) for f in self._comments(graph.post_grad).values() if f is not None}
        frames: dict[SourceFrame, None] = {}
        for handle, stacks in self._stacks(graph).items():
            if not _same_kernel(handle, label):
                continue
            for stack in map(parse_stack_text, stacks):
                if stack and (not own or (stack[-1].file, stack[-1].line) in own):
                    frames[stack[-1] if graph.code is not None else replace(stack[-1], code=None)] = None
        return tuple(frames)

    def _post_nodes(self, graph: FxGraph, label: str) -> tuple[str, ...]:
        table = self._table(graph, "cppCodeToPost", old=True)
        nodes = [node for handle, names in table.items() if _same_kernel(handle, label) for node in names]
        if not nodes:
            plain = label.rpartition(":")[0] or label
            parsed = self._parsed_code(graph).get(plain)
            nodes = list(parsed.nodes) if parsed else []
        return tuple(dict.fromkeys(nodes))

    def _from_aot(self, item: Compilation, graph: FxGraph, nodes: Iterable[str]) -> tuple[SourceFrame, ...]:
        """Through this run's AOT graphs: the node itself, else one that comes from the same operation."""
        fresh = self._aot_comments(item, graph.backward)
        before, after = self._table(graph, "postToPre"), self._table(graph, "preToPost")
        frames: dict[SourceFrame, None] = {}
        for node in nodes:
            own = fresh.get(node)
            kin = [k for p in before.get(node, ()) for k in after.get(p, ())] if own is None else []
            lines = {own} if own is not None else {f for k in kin if (f := fresh.get(k)) is not None}
            if len(lines) == 1:
                frames[lines.pop()] = None
        return tuple(frames)

    def _from_dynamo(
        self, item: Compilation, graph: FxGraph, nodes: Iterable[str]
    ) -> tuple[SourceFrame, ...]:
        before = self._table(graph, "postToPre")
        names = [p for node in nodes for p in before.get(node, ())]
        return self._lines(names, self._comments(item.dynamo_graph))

    def _translated(
        self, item: Compilation, graph: FxGraph, stale: Sequence[SourceFrame]
    ) -> tuple[SourceFrame, ...]:
        moved = self._moves(item, graph)
        lines = [moved.get((frame.file, frame.line)) for frame in stale]
        known = [line for line in lines if line is not None]
        return tuple(dict.fromkeys(known)) if len(known) == len(lines) else ()

    def _moves(self, item: Compilation, graph: FxGraph) -> Mapping[tuple[str, int], SourceFrame | None]:
        """Cached line -> this run's line; None where one cached line became several."""
        known = self._moved.get(id(graph))
        if known is not None:
            return known
        pairs: list[tuple[SourceFrame, SourceFrame]] = []
        if item.aot_state == "hit":
            fresh = self._comments(item.dynamo_graph)
            for other in item.graphs:
                before = self._table(other, "postToPre")
                for node, old in self._comments(other.post_grad).items():
                    news = [fresh.get(p) for p in before.get(node, ())]
                    pairs += [(old, new) for new in news if old is not None and new is not None]
        else:
            fresh = self._aot_comments(item, graph.backward)
            for node, old in self._comments(graph.post_grad).items():
                new = fresh.get(node)
                if old is not None and new is not None:
                    pairs.append((old, new))
        moved: dict[tuple[str, int], SourceFrame | None] = {}
        for old, new in pairs:
            place = (old.file, old.line)
            moved[place] = new if moved.get(place, new) == new else None
        self._moved[id(graph)] = moved
        return moved

    # ---- parsed payloads

    def _lines(
        self, nodes: Iterable[str], comments: Mapping[str, SourceFrame | None]
    ) -> tuple[SourceFrame, ...]:
        return tuple(dict.fromkeys(f for n in nodes if (f := comments.get(n)) is not None))

    def _aot_comments(self, item: Compilation, backward: bool) -> Mapping[str, SourceFrame | None]:
        """Comments of one direction's AOT graphs; a name with several different lines is unknown."""
        merged: dict[str, SourceFrame | None] = {}
        for aot in item.aot_graphs:
            if (aot.kind == "backward") == backward:
                for node, frame in self._comments(aot.code).items():
                    merged[node] = frame if node not in merged or merged[node] == frame else None
        return merged

    def _comments(self, payload: Payload | None) -> Mapping[str, SourceFrame | None]:
        if payload is None:
            return {}
        place = (payload.path, payload.offset)
        if place not in self._nodes:
            self._nodes[place] = node_sources(payload.text())
        return self._nodes[place]

    def _parsed_code(self, graph: FxGraph) -> Mapping[str, GeneratedKernel]:
        if graph.code is None:
            return {}
        place = (graph.code.path, graph.code.offset)
        if place not in self._kernels:
            self._kernels[place] = generated_kernels(graph.code.text())
        return self._kernels[place]

    def _table(self, graph: FxGraph, name: str, *, old: bool = False) -> _Table:
        """One of the node mappings; ``old``: the record of older versions is that mapping alone."""
        tables = self._tables(graph.node_mappings)
        return tables.get(name, tables.get("", {}) if old else {})

    def _stacks(self, graph: FxGraph) -> _Table:
        return self._tables(graph.kernel_stacks).get("", {})

    def _tables(self, payload: Payload | None) -> Mapping[str, _Table]:
        """A record's own table of texts under ``""``, and those inside it under their names."""
        if payload is None:
            return {}
        place = (payload.path, payload.offset)
        if place not in self._json:
            try:
                value = msgspec.json.decode(payload.text())
            except (msgspec.DecodeError, ValueError, RecursionError):
                value = None
            inner = value if isinstance(value, dict) else {}
            self._json[place] = {"": _table(value)} | {
                key: _table(table) for key, table in inner.items() if isinstance(table, dict)
            }
        return self._json[place]


def _table(value: object) -> _Table:
    """A record's lists of texts; what is of another form is left out."""
    if not isinstance(value, dict):
        return {}
    return {
        key: tuple(each for each in texts if isinstance(each, str))
        for key, texts in value.items()
        if isinstance(texts, list)
    }


def _same_kernel(handle: str, label: str) -> bool:
    """Whether a provenance handle (``name:3``, in older versions ``name``) is that kernel or that call."""
    return handle == label or handle.rpartition(":")[0] == label
