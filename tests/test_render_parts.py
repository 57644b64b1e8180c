"""The parts that all renderers share: escaping, units, shortening, the region tree."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import hostile
import report_samples
from kinetoscope import render
from kinetoscope.render import units, words
from kinetoscope.render.escape import clean
from kinetoscope.render.page import shorten, shorten_apart
from kinetoscope.render.sections import region_tree
from kinetoscope.render.strings import map_strings
from kinetoscope.schema import Caches, CompileTime, Graph, Region, Steps


@pytest.mark.parametrize("module", [units, words])
def test_examples_in_docstrings(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried
    assert not failed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("[red]x[/]", "[red]x[/]"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\x9bb", r"a\x9bb"),
        ("a\nb\tc\rd\0", r"a\nb\tc\rd\x00"),
        ("\u202ea", r"\u202ea"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("caf\u00e9 \u6838", "caf\u00e9 \u6838"),
        ("cafe\u0301", "caf\u00e9"),
        ("\U0001f44d\U0001f3fd", "\U0001f44d\\U0001f3fd"),
        ("a" + "\u0316" * 5, "a" + "\u0316" * 3 + r"\u0316\u0316"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_clean_for_ascii() -> None:
    assert clean("caf\u00e9 \u6838\x1b", ascii_only=True) == r"caf\xe9 \u6838\x1b"


@given(hostile.names)
def test_clean_text_is_one_printable_line_and_stays_so(name: str) -> None:
    shown = clean(name)
    assert shown.isprintable()
    assert clean(shown) == shown
    shown.encode()
    assert clean(name, ascii_only=True).isascii()


def test_every_string_of_a_report_is_reached() -> None:
    seen: list[str] = []

    def cleaned(text: str) -> str:
        seen.append(text)
        return clean(text)

    report = map_strings(report_samples.with_name("\x1bname"), cleaned)
    assert "\x1b" not in repr(report)
    assert len(seen) > 30
    assert map_strings(report, str) == report


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 us"),
        (1, "0.001 us"),
        (12_345, "12.3 us"),
        (999_499, "999 us"),
        (999_500, "1.00 ms"),
        (4_600_000, "4.60 ms"),
        (999_600_000, "1.00 s"),
        (22_124_000_000, "22.1 s"),
        (5_000_000_000_000, "5,000 s"),
        (None, "unknown"),
    ],
)
def test_duration(ns: int | None, shown: str) -> None:
    assert units.duration(ns) == shown


def test_a_column_has_one_unit() -> None:
    assert units.durations([6_378_900, None, 741_358, 100, 0]) == [
        "6.379 ms",
        None,
        "0.741 ms",
        "<0.001 ms",
        "0.000 ms",
    ]


@given(st.lists(st.integers(1, 10**15), min_size=1))
def test_no_time_is_shown_as_nothing(values: list[int]) -> None:
    for shown in (*units.durations(values), *map(units.duration, values)):
        assert shown is not None
        assert float(shown.lstrip("<").split()[0].replace(",", "")) > 0


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_only_nothing_is_0_percent_and_only_the_whole_100(share: float) -> None:
    assert units.share(share) not in ("0 %", "0.0 %", "100 %", "100.0 %")


def test_shares_at_the_ends() -> None:
    assert [units.share(value) for value in (0.0, 1.0, None, float("nan"))] == [
        "0 %",
        "100 %",
        "unknown",
        "unknown",
    ]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "unknown"), (0, "0 B"), (1000, "0.98 KiB"), (150_109_880_320, "140 GiB")]
)
def test_size(value: int | None, shown: str) -> None:
    assert units.size(value) == shown


@given(hostile.names.map(clean), st.integers(1, 60))
def test_shortened_text_fits(text: str, limit: int) -> None:
    assert cell_len(shorten(text, limit, cell_len)) <= limit
    if cell_len(text) <= limit:
        assert shorten(text, limit, cell_len) == text


@given(st.lists(hostile.names.map(clean), max_size=5), st.integers(12, 60))
def test_texts_shortened_apart_fit(texts: list[str], limit: int) -> None:
    assert all(cell_len(text) <= limit for text in shorten_apart(texts, limit, cell_len))


def test_long_names_that_differ_in_the_middle_look_different() -> None:
    long = [
        f"sm80_xmma_gemm_f32f32_f32f32_f32_{layout}_n_tilesize32x32x8_{'x' * 60}"
        for layout in ("nt", "tn", "nn")
    ]
    short = shorten_apart(long, 40)
    assert len(set(short)) == 3
    assert "_nt_" in short[0]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (report_samples.ADD, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>"),
        ("triton_poi_fused_0", "triton_poi_fused_0"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("ncclDevKernel_AllReduce_Sum(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax<float>"),
        ("void ", "void "),
        ("(", "("),
        ("", ""),
    ],
)
def test_kernel_names(name: str, short: str) -> None:
    assert words.kernel(name) == short


def region(id: str, calls: int = 1, **parents: int) -> Region:
    return Region(
        id=id,
        calls=calls,
        nested_calls=sum(parents.values()),
        total_ns=1,
        self_ns=1,
        device_ns=0,
        parents=parents,
    )


def test_region_tree_puts_a_region_under_the_parent_that_calls_it_most() -> None:
    tree = region_tree([region("a"), region("b"), region("c", 5, a=2, b=3), region("d", 9, c=1)])
    assert [(depth, entry.id) for depth, entry in tree] == [(0, "a"), (0, "b"), (1, "c"), (0, "d")]


def test_region_tree_survives_loops_and_shows_every_region_once() -> None:
    tree = region_tree([region("a", a=1), region("b", c=1), region("c", b=1), region("d", gone=1)])
    assert sorted(entry.id for _, entry in tree) == ["a", "b", "c", "d"]


def test_cache_results_are_counted_in_words() -> None:
    caches = Caches(fx_hit=1, fx_miss=2, fx_bypass=1, aot_hit=0, aot_miss=1)
    time = CompileTime(total_ns=5, in_window_ns=0, source="log", caches=caches)
    text = " ".join(render.text(report_samples.empty(compile_time=time), width=80, color=False).split())
    assert "FX graph cache: 1 hit, 2 misses, 1 bypass; AOTAutograd cache: 0 hits, 1 miss" in text


@pytest.mark.parametrize(
    ("second", "shown"),
    [
        (["s0 = L['x'].size()[0]"], ["Dynamic", "none", "s0 = L['x'].size()[0]"]),
        ([], [None, None, None]),  # perhaps a log of a torch that does not record such sizes
    ],
)
def test_a_graph_without_dynamic_sizes_is_said_to_have_none(
    second: list[str], shown: list[str | None]
) -> None:
    graphs = [Graph(id="0/0", dynamic=[]), Graph(id="0/1", dynamic=second)]
    text = render.text(report_samples.empty(graphs=graphs), width=120, color=False)
    lines = text[text.index("Graphs\n") :].splitlines()[1:4]
    for line, word in zip(lines, shown, strict=True):
        assert "Dynamic" not in line if word is None else word in line


@pytest.mark.parametrize(("unprofiled_ns", "said"), [(12_000, False), (13_000, True), (None, False)])
def test_steps_that_are_longer_without_the_profiler_are_doubted(
    unprofiled_ns: int | None, said: bool
) -> None:
    """A profiler only slows: 13 us without it against 10 us with it are not the program's."""
    steps = Steps(
        source="profiler_step", count=9, mean_ns=10_000, median_ns=9_000, unprofiled_mean_ns=unprofiled_ns
    )
    text = " ".join(render.text(report_samples.empty(steps=steps), width=80, color=False).split())
    assert ("Steps took longer without the profiler than with it (10.0 us on average)" in text) == said
