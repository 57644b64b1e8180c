"""``kinetoscope whatif``: what a step would take after a change."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kinetoscope.cli import output, progress
from kinetoscope.cli.options import Format, NoStore, OfAnnotation, OfSteps, OfWindow, OneInput, OutFile
from kinetoscope.errors import UsageError

if TYPE_CHECKING:
    from kinetoscope.replay.whatif import WhatIf

_WIDEST = 100


def whatif(
    input: OneInput,
    cuda_graphs: Annotated[
        bool, typer.Option("--cuda-graphs", help="Every compiled graph that can be is a CUDA graph.")
    ] = False,
    no_breaks: Annotated[bool, typer.Option("--no-breaks", help="No graph breaks.")] = False,
    no_sync: Annotated[bool, typer.Option("--no-sync", help="No waits for the device.")] = False,
    no_copies: Annotated[
        bool, typer.Option("--no-copies", help="Copies between host and device cost nothing but the bus.")
    ] = False,
    fused_optimizer: Annotated[
        bool, typer.Option("--fused-optimizer", help="Eager optimizer steps are one launch.")
    ] = False,
    no_guards: Annotated[bool, typer.Option("--no-guards", help="No guard checks.")] = False,
    no_allocations: Annotated[
        bool, typer.Option("--no-allocations", help="No memory asked of the driver or given back.")
    ] = False,
    no_data_wait: Annotated[
        bool, typer.Option("--no-data-wait", help="The next batch is always there.")
    ] = False,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGEX=FACTOR",
            help="Kernels whose names match are FACTOR times as fast. May be given more than once.",
        ),
    ] = None,
    unprofiled_step_ms: Annotated[
        float | None,
        typer.Option(metavar="MS", help="A step without a profiler, where no capture says it."),
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.text,
    out: OutFile = None,
    steps: OfSteps = None,
    annotation: OfAnnotation = None,
    window: OfWindow = None,
    no_store: NoStore = False,
) -> int:
    """Say what a step would take after a change, by replaying the trace without the cause.

    Several changes are made together. The answer is a range; docs/predictions.md says how it is made
    and what it cannot know.
    """
    out = None if out == "-" else out
    output.refuse_own_input(out, [input])
    from kinetoscope import window as windows
    from kinetoscope.ingest import load_source
    from kinetoscope.ingest.capture_directory import find_inputs
    from kinetoscope.ingest.unprofiled import Unprofiled
    from kinetoscope.link import link
    from kinetoscope.link.window import windowed
    from kinetoscope.replay.whatif import whatif as answer_of

    if unprofiled_step_ms is not None and not 1e-6 <= unprofiled_step_ms < 1e9:
        raise UsageError(f"--unprofiled-step-ms {unprofiled_step_ms:g}: give milliseconds, 0.000001 or more")
    asked = windows.parse(steps, annotation, window)
    first, *others = find_inputs([input])
    with progress.bar() as advance:
        links = link(load_source(first.source, progress=advance, use_store=not no_store))
    if asked is not None:
        links, _ = windowed(links, asked)
    unprofiled = first.capture.unprofiled if first.capture is not None else None
    if unprofiled_step_ms is not None:
        given = Unprofiled(round(unprofiled_step_ms * 1e6), "--unprofiled-step-ms")
        # what else the capture knows of the machine still holds for its trace
        unprofiled = (
            given if unprofiled is None else replace(unprofiled, step_ns=given.step_ns, source=given.source)
        )
    wanted = {
        "--cuda-graphs": cuda_graphs,
        "--no-breaks": no_breaks,
        "--no-sync": no_sync,
        "--no-copies": no_copies,
        "--fused-optimizer": fused_optimizer,
        "--no-guards": no_guards,
        "--no-allocations": no_allocations,
        "--no-data-wait": no_data_wait,
    }
    answer = answer_of(
        links,
        [option for option, is_wanted in wanted.items() if is_wanted],
        kernel or (),
        unprofiled,
    )
    if format is Format.json:
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"
    else:
        page = output.page(out)
        alone = links.trace.info.path if others else None
        text = _text(answer, min(page.width, _WIDEST), alone)
    output.write(text, out)
    return 0


def _text(answer: WhatIf, width: int, alone: str | None) -> str:
    from kinetoscope.analyses.wording import duration, percent
    from kinetoscope.replay.predict import NO_GAIN

    step, distortion = answer.step_ns, answer.distortion
    before, saved = step.replayed, step.replayed - step.predicted
    told = (
        "with the profiler: without it, steps are shorter"
        if distortion.unprofiled_ns is None
        else f"without a profiler: {distortion.source}"
    )
    own = f"unchanged; in the trace a step takes {duration(distortion.profiled_ns)}"
    worth = f"{duration(abs(saved))} a step ({percent(abs(saved) / before)})" if before else ""
    rows = [
        ("Step now", f"{duration(step.measured)}  ({told})"),
        ("Replayed", f"{duration(before)}  ({own})"),
        ("After", f"{duration(step.predicted)}  (between {duration(step.low)} and {duration(step.high)})"),
        ("Worth", _worth(answer.verdict, worth, is_longer=-saved > (1 - NO_GAIN) * before)),
    ]
    lines = [*_wrapped("What if", "; ".join(answer.change), width)]
    for label, value in rows:
        lines += _wrapped(label, value, width)
    for text in answer.found:
        lines += _wrapped("Found", text, width)
    if alone is not None:
        lines += _wrapped("Of", f"{alone} alone; what other ranks would do is not replayed", width)
    lines += ["", "Taken for granted"]
    for text in answer.assumptions:
        lines += textwrap.wrap(text, width, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def _worth(verdict: str, saved: str, *, is_longer: bool) -> str:
    if is_longer:
        return f"nothing: it makes steps longer, by {saved}"
    if verdict == "no gain":
        return "nothing: no gain is to be expected"
    if verdict == "unsure":
        return f"{saved}, but unsure: the range reaches the step as it is"
    return saved


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(f"{label:10} {text}", width, subsequent_indent=" " * 11, break_long_words=False)
