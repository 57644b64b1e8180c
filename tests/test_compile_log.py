"""Reading TORCH_TRACE logs: what a log says, against the programs that wrote it."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import InputError
from kinetoscope.ingest.compile_log import CompileLog, read_compile_log

LOGS = Path(__file__).parent / "traces" / "logs"
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "traces"


def log(name: str) -> CompileLog:
    return read_compile_log(LOGS / f"{name}.log.gz")


def header(kind: str, body: object, **common: object) -> str:
    return f"V0102 03:04:05.000000 77 torch/x.py:1] {json.dumps({kind: body, **common})}\n"


def write(path: Path, *records: tuple[str, object, dict[str, object], str | None]) -> Path:
    text = ""
    for kind, body, common, payload in records:
        extra = {"has_payload": "0"} if payload is not None else {}
        text += header(kind, body, **common, **extra)
        if payload is not None:
            text += "".join(f"\t{line}\n" for line in payload.split("\n"))
    path.write_text(text, encoding="utf-8")
    return path


IDS = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}


def event(name: str, phase: str, ts: float, compile_id: str | None) -> str:
    return json.dumps(
        {"name": name, "ph": phase, "ts": ts, "args": {"compile_id": compile_id}, "pid": 0, "tid": 0}
    )


def test_compilations_carry_the_users_function_file_and_line() -> None:
    found = {c.id: (c.function, c.file, c.line) for c in log("seed_breaks").compilations}
    file = "/home/user/workloads.py"
    assert found == {
        "0/0": ("M.forward", file, 67),
        "1/0": ("M.forward", file, 69),
        "2/0": ("M.forward", file, 71),
        "3/0": ("M.forward", file, 73),
    }


def test_a_module_of_torch_is_named_by_its_class_and_the_call_not_by_the_wrapper() -> None:
    (only,) = log("training").compilations
    assert only.code_name == "inner"
    assert (only.function, only.file, only.line) == ("Sequential.forward", "/home/user/training.py", 10)
    ddp = log("ddp_sequential_eager").compilations[0]
    assert (ddp.function, ddp.file, ddp.line) == ("DistributedDataParallel.forward", "/home/user/exp.py", 308)


def test_compiled_autograd_has_ids_of_its_own() -> None:
    found = {c.id: c.function for c in log("compiled_autograd").compilations}
    assert found["!0/1/0"] == "compiled autograd"
    assert found["0/0"] == "train"


def test_a_limit_takes_its_name_from_the_frames_first_compilation() -> None:
    limited = log("recompile_limit").compilations[-1]
    assert limited.hit_limit
    assert limited.produced_code is False
    assert (limited.id, limited.function, limited.line) == ("0/2", "f", 202)


def failed(frame: int, number: int, call: int, class_: str | None) -> list[Any]:
    """Records of one compilation of a wrapped module, called at line ``call``; without a class it failed."""
    ids = {"frame_id": frame, "frame_compile_id": number, "attempt": 0}
    inner = {"line": 67, "name": "inner", "filename": 0}
    stack = [{"line": call, "name": "<module>", "filename": 1, "loc": "net(x)"}, inner]
    code = {"co_name": "inner", "co_filename": "/p/torch/_dynamo/external_utils.py", "co_firstlineno": 67}
    metrics = {**code, "compile_id": f"{frame}/{number}"}
    if class_ is None:
        ended = {**metrics, "fail_type": "RuntimeError", "fail_reason": "no", "has_guarded_code": False}
        return [("dynamo_start", {"stack": stack}, ids, None), ("compilation_metrics", ended, ids, None)]
    place = "source=L['fn'], accessed_by=X(key='fn', framelocals_idx=1)"
    guards = f"| +- GuardManager: {place}, type=<class '{class_}'>"
    return [
        ("dynamo_start", {"stack": stack}, ids, None),
        ("dynamo_cpp_guards_str", {}, ids, guards),
        ("compilation_metrics", {**metrics, "has_guarded_code": True}, ids, None),
    ]


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([(7, "torch.nn.Sequential")], "Sequential.forward"),  # the same call, with inputs that worked
        ([(7, "torch.nn.Sequential"), (7, "torch.nn.Linear")], "<module>"),  # either could be meant
        ([(9, "torch.nn.Linear")], "<module>"),  # another call of the same wrapper
    ],
)
def test_a_failed_compilation_is_named_by_those_of_the_same_call(
    tmp_path: Path, others: list[tuple[int, str]], named: str
) -> None:
    files = [
        ("str", ["/p/torch/_dynamo/external_utils.py", 0], {}, None),
        ("str", ["/home/u/a.py", 1], {}, None),
    ]
    records = [r for number, (call, class_) in enumerate(others) for r in failed(0, number, call, class_)]
    path = write(tmp_path / "x.log", *files, *records, *failed(0, len(others), 7, None))
    last = read_compile_log(path).compilations[-1]
    assert (last.produced_code, last.function, last.file, last.line) == (False, named, "/home/u/a.py", 7)


def test_hints_have_no_spaces_around_them(tmp_path: Path) -> None:
    text = "Graph break\n  Explanation:  It cannot. \n  Hint:  Do this. \n  Hint: Or\n    that. \n"
    path = write(
        tmp_path / "x.log",
        ("dynamo_start", {"stack": []}, IDS, None),
        ("artifact", {"name": "dynamo_graph_break_reason", "encoding": "string"}, IDS, text),
    )
    (record,) = read_compile_log(path).compilations[0].breaks
    assert (record.explanation, record.hints) == ("It cannot.", ("Do this.", "Or that."))


def test_restarts_belong_to_one_compilation() -> None:
    first = log("seed_breaks").with_id("0/0")
    assert len(first) == 1
    assert first[0].attempts == 2
    assert first[0].restart_reasons[0].startswith("Call to `torch._dynamo.graph_break()`")
    assert (first[0].ops, first[0].guards, first[0].guard_ns) == (4, 87, 77_280)


def test_times_are_epoch_nanoseconds() -> None:
    item = log("seed_breaks").with_id("0/0")[0]
    assert item.start_ns is not None
    assert item.end_ns is not None
    assert item.metrics["start_time_us"] == 1795971217475228
    assert abs(item.start_ns - 1795971217475228_000) < 2_000_000
    assert 2.129e9 < item.end_ns - item.start_ns < 2.14e9


def test_cache_results_and_graphs() -> None:
    item = log("train").compilations[0]
    assert [(c.cache, c.state) for c in item.caches] == [("aot", "miss"), ("fx", "hit"), ("fx", "hit")]
    assert [(g.state, g.backward) for g in item.graphs] == [("hit", False), ("hit", True)]
    key = item.graphs[0].cache_key
    assert key is not None
    assert key.startswith("fuxgamull4tus37putyw")
    assert item.graphs[0].file_path is not None
    assert item.graphs[0].file_path.endswith("crcikqctmxaajbxo7abe5ep25xhk7mwkflqaqou3lilunlav5pmq.py")


def test_one_key_can_belong_to_several_compilations_and_the_region_decides() -> None:
    seed = log("seed_breaks")
    key = next(g.cache_key for g in seed.with_id("1/0")[0].graphs if not g.backward)
    assert key is not None
    assert [c.id for c in seed.compilations_for_key(key)] == ["1/0", "2/0", "3/0"]
    assert {g.compile_id for g in seed.graphs_for(key)} == {"1/0", "2/0", "3/0"}
    assert [g.compile_id for g in seed.graphs_for(key, "2/0")] == ["2/0"]


def test_ids_start_again_after_a_reset_and_the_call_time_decides() -> None:
    both = log("two_on_one_line").with_id("0/0")
    assert [c.generation for c in both] == [0, 1]
    assert [c.function for c in both] == ["g", "k"]
    again = log("two_on_one_line")
    first_end, second_end = both[0].end_ns, both[1].end_ns
    assert first_end is not None
    assert second_end is not None
    assert again.compilation_for("0/0", first_end + 5_000_000) == both[0]
    assert again.compilation_for("0/0", second_end + 5_000_000) == both[1]
    assert again.compilation_for("0/0") == both[1]
    assert again.compilation_for("0/0", first_end - 10**12) is None
    assert again.compilation_for("77/0") is None


def test_a_region_called_within_the_clocks_tolerance_finds_its_compilation() -> None:
    seed = log("seed_breaks")
    item = seed.with_id("0/0")[0]
    assert item.end_ns is not None
    assert seed.compilation_for("0/0", item.end_ns - 200_000) == item


def test_graph_code_is_there_and_source_can_be_left_out() -> None:
    kept = log("train").compilations[0]
    assert kept.dynamo_graph is not None
    assert "# File: /home/user/exp.py:211 in forward" in kept.dynamo_graph.text()
    bare = read_compile_log(LOGS / "train.log.gz", keep_source=False).compilations[0]
    assert bare.dynamo_graph is None
    assert bare.aot_graphs == ()
    assert all(g.code is None and g.post_grad is None for g in bare.graphs)
    assert all(frame.code is None for frame in bare.stack)
    assert (bare.function, bare.line) == ("MLP.forward", 211)


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_beyond_the_budget_is_read_again_from_its_place(
    tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.decompress((LOGS / "train.log.gz").read_bytes())
    path = tmp_path / "a.log"
    path.write_bytes(gzip.compress(data[:50_000]) + gzip.compress(data[50_000:]) if packed else data)
    held = read_compile_log(path).compilations[0]
    monkeypatch.setattr("kinetoscope.ingest.compile_log.TextKeeper", lambda keep: _no_budget(keep))
    placed = read_compile_log(path).compilations[0]
    for mine, other in zip(held.graphs, placed.graphs, strict=True):
        assert mine.code is not None
        assert other.code is not None
        assert mine.code.kept is not None
        assert other.code.kept is None
        assert mine.code.text() == other.code.text()


def _no_budget(keep_source: bool) -> object:
    from kinetoscope.ingest.log_state import TextKeeper

    return TextKeeper(keep_source, budget=0)


def test_records_of_an_unknown_kind_are_counted_by_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.log",
        ("dynamo_start", {"stack": []}, IDS, None),
        ("brand_new", {"a": 1}, IDS, None),
        ("artifact", {"name": "also_new", "encoding": "string"}, IDS, "text"),
        ("brand_new", {}, {}, None),
    )
    found = read_compile_log(path)
    assert found.unknown == {"brand_new": 2, "also_new": 1}
    assert found.counts["dynamo_start"] == 1


def test_interned_file_names_are_resolved(tmp_path: Path) -> None:
    stack = [
        {"line": 9, "name": "main", "filename": 1, "loc": "f(x)"},
        {"line": 3, "name": "f", "filename": 1},
    ]
    path = write(
        tmp_path / "x.log",
        ("str", ["/srv/torch/_dynamo/convert_frame.py", 0], {}, None),
        ("str", ["/home/user/prog.py", 1], {}, None),
        ("dynamo_start", {"stack": stack}, IDS, None),
    )
    found = read_compile_log(path)
    (only,) = found.compilations
    assert (only.function, only.file, only.line) == ("f", "/home/user/prog.py", 3)
    assert only.user_call is not None
    assert only.user_call.line == 9
    assert found.framework_root == "/srv/torch/"


def test_a_record_without_end_is_closed_at_the_last_time_seen(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.log",
        ("chromium_event", {}, IDS, event("dynamo", "B", 1_000.5, "0/0")),
        ("chromium_event", {}, IDS, event("bytecode_tracing", "B", 1_001.0, "0/0")),
        ("chromium_event", {}, IDS, event("bytecode_tracing", "E", 1_009.0, "0/0")),
    )
    (only,) = read_compile_log(path).compilations
    assert (only.start_ns, only.end_ns, only.produced_code) == (1_000_500, None, None)
    assert [(s.name, s.start_ns, s.end_ns, s.closed) for s in only.spans] == [
        ("dynamo", 1_000_500, 1_009_000, False),
        ("bytecode_tracing", 1_001_000, 1_009_000, True),
    ]


def test_a_directory_is_read_with_one_file_for_each_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copy(LOGS / "gb_loop.log.gz", tmp_path / f"dedicated_log_torch_trace_rank_{rank}_ab.log.gz")
    (tmp_path / "notes.txt").write_text("no log")
    found = read_compile_log(tmp_path)
    assert found.ranks == (0, 1)
    assert [c.id for c in found.for_rank(1).compilations] == ["0/0"]
    inner = tmp_path / "capture"
    (inner / "compile_log").mkdir(parents=True)
    shutil.copy(LOGS / "gb_loop.log.gz", inner / "compile_log" / "torch_trace_a.log")
    assert len(read_compile_log(inner).compilations) == 1


def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "empty.log", tmp_path / "trace.json", folder, tmp_path / "missing"):
        with pytest.raises(InputError) as caught:
            read_compile_log(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_windows_line_ends(tmp_path: Path) -> None:
    data = gzip.decompress((LOGS / "gb_loop.log.gz").read_bytes())
    (tmp_path / "w.log").write_bytes(data.replace(b"\n", b"\r\n"))
    there, here = read_compile_log(tmp_path / "w.log"), log("gb_loop")
    assert there.counts == here.counts
    assert there.compilations[0].breaks == here.compilations[0].breaks


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
def test_every_shared_log_is_read_without_loss() -> None:
    paths = sorted(SHARED.glob("*/*/compile_log"))
    assert paths
    for path in paths:
        found = read_compile_log(path)
        assert found.warnings == (), path
        assert found.unknown == {}, path
        for item in found.compilations:
            if item.id != "!0":  # bare id of compiled autograd: capture of the backward, no code of its own
                assert item.function, (path, item.id)
                assert item.file, (path, item.id)
                assert item.line, (path, item.id)
                assert not str(item.file).endswith("external_utils.py"), (path, item.id)
