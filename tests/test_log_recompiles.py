"""Recompilations from logs alone: counts by the contract, guards in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.analyses.log_recompiles import LogRecompiles, explain_guard, log_recompiles
from kinetoscope.ingest.compile_log import GuardFailure, read_compile_log
from kinetoscope.ingest.log_text import parse_guard_failures

LOGS = Path(__file__).parent / "traces" / "logs"
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "traces"


def recompiles(name: str) -> LogRecompiles:
    return log_recompiles(read_compile_log(LOGS / f"{name}.log.gz"))


def test_the_compilation_that_hit_the_limit_does_not_count() -> None:
    found = recompiles("recompile_limit")
    assert found.count == 1
    (site,) = found.sites
    assert (site.function, site.line, site.ids) == ("f", 202, ("0/1",))
    assert site.reasons == ("the size of tensor x in dimension 0 was 8 and is now 9",)
    assert site.guards == ("tensor 'x' size mismatch at index 0. expected 8, actual 9",)
    assert 2.9e9 < site.compile_ns < 3.0e9
    (limit,) = found.limits
    assert (limit.function, limit.line, limit.ids, limit.compilations) == ("f", 202, ("0/2",), 2)
    assert limit.reasons[0] == "the size of tensor x in dimension 0 was 9 and is now 10"


def test_a_second_instance_with_other_gradients_is_a_recompilation() -> None:
    found = recompiles("regional")
    assert found.count == 1
    assert found.sites[0].function == "Blk.forward"
    assert found.sites[0].reasons == ("tensor x did not require gradients and now does",)


def test_breaks_and_a_reset_are_no_recompilations() -> None:
    assert recompiles("seed_breaks") == LogRecompiles(0, 0, (), ())
    found = recompiles("two_on_one_line")  # f: another size, number, dtype and gradient mode; nothing else
    assert [(s.function, s.line, len(s.ids)) for s in found.sites] == [("f", 15, 4)]
    assert found.count == 4
    said = found.sites[0].reasons
    assert "the size of tensor x in dimension 0 was 3 and is now 4" in said
    assert "n was 1 and is now another value" in said
    assert "the dtype of tensor x was Float and is now Double" in said
    assert any("whether gradients are recorded" in reason for reason in said)
    assert ("/home/user/lines.py", 15) in found.sites[0].guard_lines


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (
            "tensor 'L['x']' stride mismatch at index 1. expected 4, actual 8",
            "the stride of tensor x in dimension 1 was 4 and is now 8",
        ),
        ("tensor 'x' rank mismatch. expected 2, actual 1", "tensor x had 2 dimensions and now has 1"),
        (
            "tensor 'x' requires_grad mismatch. expected requires_grad=1",
            "tensor x required gradients and now does not",
        ),
        ("len(xs) == 1", "the length of xs was 1 and is now another"),
        ("len(G['seen']) == 1", "the length of seen was 1 and is now another"),
        ("not G['seen']", "seen was empty and is not any more"),
        ("len(self.state['p']) != 0", "self.state['p'] was not empty and now is"),
        (
            "tensor '___stack1' size mismatch at index 0. expected 37, actual 31",
            "the size of a tensor from before the graph break in dimension 0 was 37 and is now 31",
        ),
        ("___stack0 == 1.5", "a value from before the graph break was 1.5 and is now another value"),
        ("d is None", "d was None and is not any more"),
        ("d['a'] == 1", "d['a'] was 1 and is now another value"),
        ("self.training == True", "self.training was True and is now another value"),
        ("___check_type_id(d, 1406), type=<class 'dict'>", "d is no longer a dict"),
        ("___check_type_id(L['d'], 1406)", "d is no longer of the same type"),
        ("___check_obj_id(L['f'], 1406)", "f is now another object"),
        (
            "GLOBAL_STATE changed: grad_mode default_dtype",
            "a global setting changed: whether gradients are recorded (torch.no_grad, torch.enable_grad), "
            "the default dtype",
        ),
        (
            "2 <= x.size()[0]",
            "a size or number left the range it was compiled for: 2 <= the size of x in dimension 0",
        ),
        ("L['x'].size()[0] == 8", "the size of x in dimension 0 was 8 and is now another value"),
        (
            "expected type of 'x' to be a tensor type, ' but found <class 'torch.nn.parameter.Parameter'>",
            "x is now a Parameter, another type than before",
        ),
        (
            "hasattr(L['x'], '_dynamo_dynamic_indices') == False",
            "x now has an attribute _dynamo_dynamic_indices",
        ),
        ("not ___dict_contains('k', L['d'])", "key 'k' is now in d"),
        ("some_new_check(x)", "a condition no longer holds: some_new_check(x)"),
        ("", "a condition no longer holds: not stated"),
    ],
)
def test_guards_in_plain_words(guard: str, words: str) -> None:
    assert explain_guard(GuardFailure("0/0", guard)) == words


def test_reasons_of_several_forms() -> None:
    stack = 'User stack trace:\n  File "/p/a.py", line 8, in f\n    y = x * n'
    text = json.dumps([f"0/1: n == 2   # y = x * n  # prog/a.py:8 in f\n{stack}", "!0/1/0: a"])
    first, second = parse_guard_failures(text)
    assert (first.compile_id, first.guard) == ("0/1", "n == 2")
    assert first.source is not None
    assert (first.source.file, first.source.line, first.source.code) == ("/p/a.py", 8, "y = x * n")
    assert (second.compile_id, second.guard) == ("!0/1/0", "a")
    (plain,) = parse_guard_failures("3/0: L['n'] == 2  # y = x * n  # prog/a.py:8 in f")
    assert plain.source is not None
    assert (plain.source.file, plain.source.line, plain.source.code) == ("prog/a.py", 8, "y = x * n")
    assert parse_guard_failures("") == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
def test_a_second_compile_with_another_backend_is_listed_and_not_counted() -> None:
    found = log_recompiles(read_compile_log(SHARED / "gpu" / "gpt_decode" / "compile_log"))
    assert found.count == 0
    assert found.compile_ns == 0
    (site,) = found.sites
    assert site.deliberate
    assert (site.function, site.ids) == ("Tiny.forward", ("0/1",))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared captures are not beside the checkout")
def test_only_the_straggling_rank_recompiled() -> None:
    log = read_compile_log(SHARED / "gpu" / "straggler" / "compile_log")
    assert log_recompiles(log.for_rank(0)).count == 0
    found = log_recompiles(log.for_rank(1))
    assert [(s.function, s.ids) for s in found.sites] == [
        ("Tiny.forward", ("4/1",)),
        ("DistributedDataParallel.forward", ("0/1",)),
    ]
    assert found.sites[0].reasons == ("the size of tensor t in dimension 1 was 128 and is now 160",)
