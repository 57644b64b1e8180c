"""The terminal report: what it says first, that it fits, that nothing can break it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import hostile
import report_samples as samples
from kinetoscope import render
from kinetoscope.schema import (
    CauseShare,
    Compiled,
    CompileFrame,
    CompilePhase,
    CompileTime,
    CudaGraphs,
    CudaGraphSkip,
    DeviceMemory,
    Finding,
    Gap,
    Graph,
    GraphBreaks,
    GraphRegion,
    Idle,
    Launches,
    Memory,
    Recompiles,
    RecompileSite,
    Report,
    Saving,
    SourceLine,
    Step,
    Steps,
    WarningNote,
    Window,
)

replace = msgspec.structs.replace
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def everything() -> Report:
    """A report with something in every section."""
    report = samples.seed_breaks()
    kernels = report.kernels
    assert kernels is not None
    top = [
        replace(kernel, source=[SourceLine(file="model.py", line=3)], source_state="cached", gb_per_s=812.5)
        for kernel in kernels.top
    ]
    return replace(
        report,
        trace=replace(
            report.trace, window=Window(start_ns=0, end_ns=9_000_000, steps=(1, 2)), rank=1, world_size=8
        ),
        graphs=[
            Graph(id="0/0", ops=12, kernels=3, backend="inductor", dynamic=["s0"], guards=9, guard_ns=2_100)
        ],
        recompiles=Recompiles(
            count=1,
            source="log",
            sites=[
                RecompileSite(
                    function="forward", ids=["0/1"], reasons=["L['x'].size(0) == 8"], compile_ns=9_000
                )
            ],
        ),
        compile_time=CompileTime(
            total_ns=22_124_000_000,
            in_window_ns=2_000_000,
            source="log",
            frames=[
                CompileFrame(
                    id="0/0",
                    function="forward",
                    total_ns=22_000_000_000,
                    phases=[
                        CompilePhase(name="inductor_compile", total_ns=9_000_000_000, self_ns=4_000_000_000)
                    ],
                )
            ],
        ),
        kernels=replace(kernels, top=top),
        launches=replace(report.launches, graph_launches=2, device_events_per_graph_launch=[3, 31]),
        idle=Idle(
            total_ns=900,
            share=0.5,
            gaps=3,
            by_cause=[CauseShare(cause="launch", total_ns=900, share=1.0, gaps=3)],
            longest=[Gap(start_ns=1, dur_ns=500, cause="launch", device="0", detail="aten::mm")],
        ),
        memory=Memory(
            device=[DeviceMemory(device="0", peak_allocated_bytes=2**30, peak_reserved_bytes=2**31)],
            cpu_peak_allocated_bytes=4096,
        ),
        cuda_graphs=CudaGraphs(
            used=True,
            replays=2,
            recordings=1,
            regions=[GraphRegion(id="0/0", replays=2, device_ns=5_000)],
            skips=[CudaGraphSkip(reason="mutated inputs", count=1)],
        ),
    )


SAMPLES: dict[str, Callable[[], Report]] = {
    "empty": samples.empty,
    "seed_breaks": samples.seed_breaks,
    "everything": everything,
    "two_ranks": samples.two_ranks,
    "long_name": lambda: samples.with_name("void at::native::" + "elementwise_kernel<" * 400),
    "cjk": lambda: samples.with_name("\u6838\u5fc3" * 300),
    "emoji": lambda: samples.with_name(
        "\U0001f525\u2764\ufe0f\U0001f468\u200d\U0001f469\u200d\U0001f467" * 90
    ),
}


def text(report: Report, width: int = 80, color: bool = False) -> str:
    return render.text(report, width=width, color=color)


def cells(line: str) -> int:
    """Width as the plainest terminal counts it: two cells for a wide character, none for an accent."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in line
    )


@pytest.mark.parametrize("width", [40, 57, 80, 100, 120])
@pytest.mark.parametrize("sample", SAMPLES)
def test_no_line_is_wider_than_the_page(sample: str, width: int) -> None:
    for line in text(SAMPLES[sample](), width).splitlines():
        assert max(cells(line), cell_len(line)) <= width
        assert line == line.rstrip(" ")


TITLES = ("Region ", "Who wrote it", "What it computes", "Kernel ", "Step ", "Device ")


@pytest.mark.parametrize("width", [60, 80])
def test_tables_end_at_the_margin(width: int) -> None:
    lines = text(samples.seed_breaks(), width).splitlines()
    for title in TITLES:
        assert any(line.startswith(title) and len(line) == width for line in lines), title


def test_on_a_wide_page_only_what_needs_the_room_takes_it() -> None:
    lines = text(samples.seed_breaks(), 120).splitlines()
    widths = {title: max(len(line) for line in lines if line.startswith(title)) for title in TITLES}
    assert widths["Kernel "] > 100
    assert widths["Who wrote it"] == widths["Region "] == 80


def test_the_first_screen_answers_three_questions_before_any_table() -> None:
    shown = text(samples.seed_breaks())
    head = shown[: shown.index("Compiled regions")]
    assert len(head.splitlines()) <= 28
    assert "seed_breaks/trace.json.gz \u00b7 NVIDIA H200 \u00b7 3 steps \u00b7 1,210 events" in head
    assert "Compiled  yes, in 4 pieces: 3 graph breaks (estimate)" in head
    assert "Step      3.39 ms (median of 2)   GPU busy 146 us (4.3 %)   host-bound" in head
    assert "Compile   none in this window" in head
    assert (
        head.index("Compiled") < head.index("Step") < head.index("What to fix") < head.index("graph-break  3")
    )
    assert "882 us" in head


def test_no_exclamation_marks_and_no_null() -> None:
    for sample in ("empty", "seed_breaks", "everything"):
        shown = text(SAMPLES[sample]())
        assert "!" not in shown
        assert "None" not in shown
        assert "null" not in shown


def test_an_empty_report_says_unknown_and_never_zero() -> None:
    shown = text(samples.empty())
    assert "unknown: the trace does not tell" in shown
    assert "no steps found; no device events" in shown
    assert not re.search(r"\b0\b", shown)
    assert "\nKernels" not in shown
    assert "\nLaunches" not in shown


def test_sections_without_content_are_left_out() -> None:
    shown = text(samples.seed_breaks())
    for title in ("Recompiles", "Compile time", "CUDA graphs", "Memory", "Graphs", "Warnings"):
        assert f"\n{title}\n" not in shown


def test_every_section_with_content_is_there() -> None:
    shown = text(everything(), 120)
    titles = [
        "Compiled regions",
        "Graph breaks",
        "Recompiles",
        "Kernels by origin",
        "Kernels by kind",
        "Kernels that take the most time",
        "Steps",
        "Device time",
        "Launches",
        "Device idle time",
        "Compile time",
        "Graphs",
        "Autograd",
        "CUDA graphs",
        "Memory",
    ]
    places = [shown.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    for words in (
        "Window: steps 1 to 2",
        "rank 1 of 8",
        "3 to 31 device events each",
        "22.1 s in all",
        "1.00 GiB",
        "812 GB/s",
        "GPU idle     launch 100 %",
    ):
        assert words in shown


def test_partial_comes_first() -> None:
    report = samples.seed_breaks()
    shown = text(replace(report, trace=replace(report.trace, complete=False)))
    assert shown.startswith("PARTIAL")
    assert "PARTIAL" not in text(report)


def test_nothing_compiled_is_said_loudly() -> None:
    report = samples.seed_breaks(
        compiled=Compiled(verdict="no", evidence=["no compiled region", "no Triton kernel"])
    )
    shown = text(report)
    assert "Compiled  NO: nothing compiled ran here\n          no compiled region\n" in shown
    assert "\x1b[1;31mNO" in text(report, color=True)


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (GraphBreaks(bound="estimate", count=None), "graph breaks unknown"),
        (GraphBreaks(bound="estimate", count=0), "no graph breaks seen"),
        (GraphBreaks(bound="exact", count=0), "no graph breaks\n"),
        (GraphBreaks(bound="exact", count=1), "4 compiled regions, 1 graph break\n"),
    ],
)
def test_how_sure_the_break_count_is(breaks: GraphBreaks, said: str) -> None:
    assert said in text(samples.seed_breaks(graph_breaks=breaks))


def test_device_events_missing_gives_no_busy_share() -> None:
    report = samples.seed_breaks(kernels=None, idle=None, device_time=[])
    shown = text(report)
    assert "GPU activity was not recorded" in shown
    assert "host-bound" not in shown


def test_step_busy_is_unknown_when_one_step_is() -> None:
    report = samples.seed_breaks()
    steps = [*report.steps.list[:2], replace(report.steps.list[2], device_busy_ns=None)]
    shown = text(replace(report, steps=replace(report.steps, list=steps)))
    assert "GPU busy unknown" in shown
    assert "host-bound" not in shown


def test_a_busy_device_is_said_to_be_the_limit() -> None:
    steps = Steps(
        source="profiler_step",
        count=1,
        mean_ns=1000,
        median_ns=1000,
        list=[Step(name="ProfilerStep#1", start_ns=0, dur_ns=1000, device_busy_ns=950)],
    )
    assert "GPU busy 0.95 us (95 %)   GPU-bound" in text(samples.seed_breaks(steps=steps))


def test_unknown_values_in_a_table_are_said_and_empty_columns_are_not() -> None:
    report = samples.seed_breaks()
    first = replace(report.regions[0], function="Model.forward", file="model.py", line=9)
    shown = text(replace(report, regions=[first, *report.regions[1:]]), 120)
    assert re.search(r"0/0 +Model.forward +model.py:9 ", shown)
    assert re.search(r"1/0 +unknown +unknown ", shown)
    assert "Function" not in text(report, 120)


def test_warnings_are_shown_above_and_all_of_them_below() -> None:
    report = samples.seed_breaks()
    notes = [WarningNote(code=f"w{n}", message=f"warning number {n}", count=n) for n in range(1, 6)]
    shown = text(replace(report, trace=replace(report.trace, warnings=notes)))
    head, tail = shown[: shown.index("Compiled")], shown[shown.index("Warnings about the file") :]
    assert "Warning: warning number 1\n" in head
    assert "Warning: warning number 3 (3 times)" in head
    assert "5 warnings in all" in head
    assert all(note.message in tail for note in notes)


def test_savings_show_their_range() -> None:
    report = samples.seed_breaks()
    saving = Saving(low=400_000, best=700_000, high=900_000)
    findings = [replace(report.findings[0], saving_ns_per_step=saving), *report.findings[1:]]
    shown = text(replace(report, findings=findings))
    assert re.search(r"What to fix +costs a step +saves a step\n", shown)
    assert re.search(r"882 us +700 us\n", shown)
    assert re.search(r"19\.1 us +unknown\n", shown)
    assert "Saves 400 us to 900 us a step" in shown


def test_advice_is_shown_whole_and_never_cut_in_a_sentence() -> None:
    report = samples.seed_breaks()
    fix = [f"Advice number {n} is a sentence of some fifty characters." for n in range(60)]
    words = " ".join(fix[:20])
    finding = Finding(code="recompile", title="again", severity="high", detail=words, fix=" ".join(fix))
    shown = " ".join(text(replace(report, findings=[finding])).split())
    assert shown.count("Advice number 19 is") == 2
    # 10 of 56 and 25 of 57 characters, spaces and "Fix:" counted, are 1,989; one more is over 2,000
    assert "Advice number 34 is a sentence of some fifty characters." in shown
    assert "Advice number 35" not in shown
    assert "…" not in shown[shown.index("Fix: ") : shown.index("Advice number 34")]


def test_many_findings_and_rows_are_counted_when_left_out() -> None:
    report = samples.seed_breaks()
    finding = Finding(code="sync", title="waits", severity="low", detail="")
    region = report.regions[0]
    shown = text(
        replace(
            report,
            findings=[finding] * 30,
            regions=[replace(region, id=f"{n}/0") for n in range(50)],
            steps=replace(report.steps, list=report.steps.list * 100),
        )
    )
    assert "22 more findings: --format json lists all" in shown
    assert "30 more regions: --format json lists all" in shown
    assert "292 more steps" in shown
    assert len(shown.splitlines()) < 200


def test_launches_without_a_recorded_start_are_told_apart() -> None:
    launches = Launches(
        launch_calls=7, graph_launches=0, device_events=9, linked=5, unlinked=4, launched_before_window=3
    )
    shown = text(samples.empty(launches=launches), 120)
    assert (
        "9 device events, 5 linked to their launch, 3 launched before the window, 1 without a launch" in shown
    )


def test_color_only_when_asked_for_and_the_words_are_the_same() -> None:
    for sample in SAMPLES.values():
        plain, colored = text(sample()), text(sample(), color=True)
        assert "\x1b" not in plain
        assert "\x1b[" in colored
        bare = "\n".join(line.rstrip() for line in ESCAPE.sub("", colored).splitlines())
        assert bare.strip() == plain.strip()


def test_ascii_page() -> None:
    report = samples.with_name("caf\u00e9 \u6838")
    shown = render.text(report, width=80, color=False, ascii_only=True)
    assert shown.isascii()
    assert r"caf\xe9 \u6838" in shown
    assert max(map(len, shown.splitlines())) <= 80


@given(name=hostile.names, width=st.integers(40, 130), color=st.booleans())
@example(name="\u1b35", width=40, color=False)  # vowel signs of one cell for some, of none for others
@example(name="\u1b36", width=40, color=False)
@settings(max_examples=40, deadline=None)
def test_no_name_can_break_the_text(name: str, width: int, color: bool) -> None:
    shown = text(samples.with_name(name), width, color)
    bare = ESCAPE.sub("", shown) if color else shown
    for line in bare.split("\n"):
        assert line.isprintable()
        assert max(cells(line), cell_len(line)) <= width
    shown.encode()
    # The page's own lines stand where they stand for any name.
    for title in ("Compiled regions", "Kernels by origin", "Launches", "Autograd"):
        assert bare.split("\n").count(title) == 1
