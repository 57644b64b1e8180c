"""``kinetoscope kernel``: everything about one kernel, and the next command for a kernel-level tool."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from kinetoscope.cli import output, progress
from kinetoscope.cli.options import Format, NoStore, OfLog, OneInput, OutFile
from kinetoscope.errors import UsageError

if TYPE_CHECKING:
    from kinetoscope.analyses.one_kernel import KernelDetails, KernelRuns, LaunchConfig, WhereRun
    from kinetoscope.analyses.one_kernel_tools import ToolCommand
    from kinetoscope.analyses.origins import Work

_NAMED = 6  # candidates listed for a name that fits several kernels
_WIDEST = 100
_PLACES = 8
_LINES = 12


def kernel(
    input: OneInput,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The kernel's name as the report shows it, or a part that only one kernel has.",
            show_default=False,
        ),
    ],
    format: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.text,
    out: OutFile = None,
    compile_log: OfLog = None,
    no_code: Annotated[bool, typer.Option("--no-code", help="Leave the generated code out.")] = False,
    no_store: NoStore = False,
) -> int:
    """Say everything about one kernel, and which command looks inside it.

    Launch configuration, times, origin, operator, region; with a compile log source lines and generated code;
    and the exact next command for Nsight Compute, rocprof-compute, VTune or Inductor's own benchmark.
    """
    from kinetoscope.analyses.joined_kernels import KernelPlaces
    from kinetoscope.analyses.one_kernel import details
    from kinetoscope.analyses.one_kernel_tools import tool_commands
    from kinetoscope.findings.log_facts import LogFacts
    from kinetoscope.ingest import load_source
    from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
    from kinetoscope.ingest.compile_log import CompileLog
    from kinetoscope.link import link
    from kinetoscope.link.logs import LogLinks
    from kinetoscope.reporting import facts_of

    out = None if out == "-" else out
    output.refuse_own_input(out, [input])
    inputs = find_inputs([input], compile_log)
    if len(inputs) > 1:
        names = ", ".join(item.source.label for item in inputs[:4])
        raise UsageError(f"{input} holds {len(inputs)} traces ({names} ...); name one of them")
    (item,) = inputs
    with progress.bar() as advance:
        trace = load_source(item.source, progress=advance, use_store=not no_store)
    log, _ = LogShelf().log_for(item, trace)
    links = link(trace)
    facts, _ = facts_of(links, log, item.capture)
    places = (
        facts.places
        if isinstance(facts, LogFacts)
        else KernelPlaces(LogLinks(links, CompileLog()), facts.work)
    )
    found = details(facts.work, resolve(facts.work, name), places)
    manifest = item.capture.manifest if item.capture is not None else {}
    commands = tool_commands(facts.work, found, trace.info.device_kind, manifest)
    if no_code:
        bare = [msgspec.structs.replace(place, code=None) for place in found.places]
        found = msgspec.structs.replace(found, places=bare)
    if format is Format.json:
        text = _json(trace.info.path, trace.info.device_kind, found, commands)
    else:
        page = output.page(out)
        text = _text(found, commands, min(page.width, _WIDEST), ascii_only=page.ascii_only)
    output.write(text, out)
    return 0


def resolve(work: Work, asked: str) -> str:
    """The whole name of the kernel that ``asked`` means: exactly, as the report shortens it, or as a part."""
    import numpy as np

    from kinetoscope.render import words

    trace = work.links.trace
    numbers, which = np.unique(trace.columns.name[work.rows], return_inverse=True)
    spent = np.bincount(which, weights=work.dur_ns, minlength=len(numbers))
    order = np.argsort(-spent, kind="stable")
    names = [str(trace.names[int(numbers[number])]) for number in order]
    if not names:
        raise UsageError(f"{trace.info.path} has no kernels")
    before, cut, after = asked.partition("…")
    tests = (
        lambda name: name == asked,
        lambda name: words.kernel(name) == asked,
        lambda name: (
            bool(cut) and words.kernel(name).startswith(before) and words.kernel(name).endswith(after)
        ),
        lambda name: asked.lower() in name.lower() or asked.lower() in words.kernel(name).lower(),
    )
    for test in tests:
        fitting = [name for name in names if test(name)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            listed = ", ".join(words.kernel(name) for name in fitting[:_NAMED])
            more = " ..." if len(fitting) > _NAMED else ""
            raise UsageError(f"{asked}: {len(fitting)} kernels have this in their names: {listed}{more}")
    listed = ", ".join(words.kernel(name) for name in names[:_NAMED])
    raise UsageError(f"{asked}: no kernel of this trace is called so; the most costly are {listed}")


def _json(path: str, device: str | None, found: KernelDetails, commands: list[ToolCommand]) -> str:
    from kinetoscope.render import as_json

    whole = {
        "schema": "kinetoscope.kernel/1",
        "trace": path,
        "device_kind": device,
        **msgspec.to_builtins(found),
        "commands": msgspec.to_builtins(commands),
    }
    return as_json.render(cast("Any", whole))


def _text(found: KernelDetails, commands: list[ToolCommand], width: int, *, ascii_only: bool) -> str:
    from kinetoscope.render.escape import clean
    from kinetoscope.render.strings import map_strings

    # code keeps its lines; every other string, and every line of code, is made safe to show
    codes = [place.code for place in found.places]
    safe = map_strings(found, lambda text: clean(text, ascii_only=ascii_only))
    shown = map_strings(commands, lambda text: clean(text, ascii_only=ascii_only))
    lines = [safe.name, ""]
    for run in safe.runs:
        lines += _run(run)
    for config in safe.configs[:4]:
        lines += _config(config, safe.runs_read)
    if len(safe.configs) > 4:
        lines.append(f"  and {len(safe.configs) - 4} more launch configurations")
    for place in safe.places[:_PLACES]:
        lines += ["", *_place(place)]
    if len(safe.places) > _PLACES:
        lines += ["", f"and {len(safe.places) - _PLACES} more places"]
    if safe.kernel_file:
        lines += ["", f"Kernel file   {safe.kernel_file}"]
    code = next((code for code in codes if code), None)
    if code is not None:
        lines += ["", "Generated code"]
        lines += [f"    {clean(line.expandtabs(4), ascii_only=ascii_only)}" for line in code.splitlines()]
    lines += ["", "Next"]
    for command in shown:
        lines += [f"  {command.tool}:", f"    {command.command}"]
        lines += textwrap.wrap(command.note, width - 4, initial_indent="    ", subsequent_indent="    ")
    if not commands:
        lines.append("  No kernel-level tool is known for this device.")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _run(run: KernelRuns) -> list[str]:
    from kinetoscope.render import units, words

    replay = ", replayed in CUDA graphs" if run.in_graph_replay else ""
    often = f", {run.per_step:,.1f} a step" if run.per_step is not None else ""
    lines = [
        f"Runs          {run.count:,}{often}; {words.ORIGINS[run.origin]}, {run.kind}{replay}",
        f"Time          {units.duration(run.total_ns)} in all, {units.share(run.share)} of all kernels;"
        f" median {units.duration(run.median_ns)}, {units.duration(run.min_ns)} to"
        f" {units.duration(run.max_ns)}",
    ]
    if run.bytes is not None:
        lines.append(f"Memory        {units.size(run.bytes)} a run, {units.rate(run.gb_per_s, 'GB/s')}")
    if run.flops is not None:
        lines.append(f"Arithmetic    {units.rate(run.tflop_per_s, 'TFLOP/s')}")
    return lines


def _config(config: LaunchConfig, read: int) -> list[str]:
    from kinetoscope.render import units

    facts = [
        f"grid {config.grid}" if config.grid else None,
        f"block {config.block}" if config.block else None,
        f"{config.registers_per_thread} registers" if config.registers_per_thread is not None else None,
        f"{units.size(config.shared_memory_bytes)} shared"
        if config.shared_memory_bytes is not None
        else None,
        f"{config.blocks_per_sm:.2g} blocks an SM" if config.blocks_per_sm is not None else None,
        f"occupancy {config.occupancy_percent:.0f} %" if config.occupancy_percent is not None else None,
        f"num_warps {config.num_warps}" if config.num_warps is not None else None,
        f"num_stages {config.num_stages}" if config.num_stages is not None else None,
        config.tuning,
    ]
    said = ", ".join(fact for fact in facts if fact)
    if not said:
        return []
    lines = [f"Launched      {said} ({config.count:,} of {read:,} looked at)"]
    return [*lines, f"Inputs        {config.input_shapes}"] if config.input_shapes else lines


def _place(place: WhereRun) -> list[str]:
    from kinetoscope.render import units, words

    what = "backward of region" if place.backward and place.region is None else "region"
    where = place.region if place.region is not None else place.compile_id
    lines = [f"{place.count:,} runs, {units.duration(place.total_ns)}"]
    if where:
        at = words.place(place.file, place.line)
        lines.append(f"  {what} {where}" + (f": {place.function or 'unnamed'}, {at}" if at else ""))
    by = [text for text in (place.op, place.launch_call) if text]
    if by:
        lines.append(f"  launched by {' in '.join(reversed(by))}")
    if place.source:
        sure = "" if place.source_state == "exact" else " (from a cache: lines can be out of date)"
        lines.append(f"  computes{sure}:")
        lines += [
            f"    {line.file}:{line.line} in {line.function or '?'}  {line.code or ''}"
            for line in place.source[:_LINES]
        ]
        if len(place.source) > _LINES:
            lines.append(f"    and {len(place.source) - _LINES} more lines")
    elif place.consumer:
        lines.append(f"  no source line in the log; its result goes to {place.consumer}")
    if place.file_path:
        lines.append(f"  code {words.place(place.file_path, place.code_line)}")
    return lines
