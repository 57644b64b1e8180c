import json

from kinetoscope.capturing.redact import redact_record

TRACEBACK = """\
Graph break in user code at /p/a.py:20
Graph Break Reason: Call to print
  Explanation: it prints

User code traceback:
  File "/p/a.py", line 332, in <module>
    secret(1)
    ^^^^^^
  File "/p/a.py", line 20, in f
    print(secret)

Traceback (most recent call last):
  File "/t/b.py", line 1, in g
    secret()
torch._dynamo.exc.Unsupported: Call to print"""


def test_breaks_keep_place_and_reason() -> None:
    metadata, payload = redact_record({"artifact": {"name": "dynamo_graph_break_reason"}}, TRACEBACK)
    assert payload is not None
    assert "secret" not in payload
    for kept in ("a.py:20", "Explanation: it prints", "line 20, in f", "exc.Unsupported: Call to print"):
        assert kept in payload
    assert metadata["artifact"]["name"] == "dynamo_graph_break_reason"


def test_guards_lose_their_source_comment() -> None:
    reasons = '["0/0: size mismatch at index 0. expected 8, actual 9  # y = secret * 2  # a.py:3 in f"]'
    _, payload = redact_record({"artifact": {"name": "recompile_reasons"}}, reasons)
    assert payload is not None
    assert "secret" not in payload
    assert "expected 8, actual 9" in payload


def test_code_is_dropped_and_said() -> None:
    for metadata in (
        {"inductor_output_code": {"filename": "/x"}},
        {"artifact": {"name": "of a newer torch"}},
    ):
        kept, payload = redact_record({**metadata, "has_payload": "0"}, "def secret(): pass")
        assert payload is None
        assert kept["redacted"]
        assert "has_payload" not in kept


def test_stacks_keep_lines_and_lose_text() -> None:
    stack = {"stack": [{"line": 3, "name": "f", "filename": 1, "loc": "secret()"}]}
    kept, _ = redact_record({"dynamo_start": stack}, None)
    assert kept == {"dynamo_start": {"stack": [{"line": 3, "name": "f", "filename": 1}]}}


def test_cache_keys_are_kept_without_their_graph() -> None:
    payload = json.dumps({"key": "fx", "components": ["gm: def secret()"], "time_saved_ns": 3})
    _, kept = redact_record({"artifact": {"name": "fx_graph_cache_hit"}}, payload)
    assert kept is not None
    assert json.loads(kept) == {"key": "fx", "time_saved_ns": 3}


def test_events_lose_the_graph_in_their_arguments() -> None:
    event = {"name": "inductor_compile", "ts": 1.5, "args": {"key": "fx", "components": ["secret"]}}
    _, kept = redact_record({"chromium_event": {}}, json.dumps(event))
    assert kept is not None
    assert json.loads(kept) == {"name": "inductor_compile", "ts": 1.5, "args": {"key": "fx"}}


def test_metrics_lose_the_lines_in_them() -> None:
    reason = 'File "a.py", line 1\n  secret()'
    metrics = {"co_name": "f", "inductor_provenance": ["secret"], "fail_reason": reason}
    kept, _ = redact_record({"compilation_metrics": metrics}, None)
    assert kept == {"compilation_metrics": {"co_name": "f", "fail_reason": 'File "a.py", line 1'}}
