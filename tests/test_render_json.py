"""The JSON report: strict, and what its schema says."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings

import hostile
import report_samples as samples
from kinetoscope import render
from kinetoscope.schema import Report
from test_render_text import everything


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def validator() -> jsonschema.Draft202012Validator:
    made = json.loads(render.json_schema())
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("sample", [samples.empty, samples.seed_breaks, samples.two_ranks, everything])
def test_a_report_is_valid_and_reads_back_as_itself(sample: Any) -> None:
    text = render.json(sample())
    validator().validate(strict(text))
    assert msgspec.json.decode(text, type=Report) == sample()


def test_the_schema_refuses_what_is_not_a_report() -> None:
    good = strict(render.json(samples.seed_breaks()))
    check = validator()
    for path, value in (
        (("steps", "source"), "guess"),
        (("trace", "events"), "many"),
        (("trace", "complete"), None),
        (("compiled", "verdict"), None),
        (("device_time",), None),
        (("kernels", "total_ns"), 1.5),
        (("schema",), "kinetoscope.report/2"),
    ):
        bad = json.loads(json.dumps(good))
        inner = bad
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert not check.is_valid(bad), path


def test_what_is_not_known_is_null_and_every_field_is_written() -> None:
    document = strict(render.json(samples.empty()))
    assert list(document) == list(Report.__struct_fields__)
    assert document["kernels"] is None
    assert document["steps"] == {
        "source": None,
        "count": None,
        "mean_ns": None,
        "median_ns": None,
        "unprofiled_mean_ns": None,
        "unprofiled_ns": None,
        "list": [],
    }
    assert document["graph_breaks"]["count"] is None
    assert document["launches"]["launch_ns"] is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_has_not_become_null(value: float) -> None:
    report = samples.seed_breaks()
    report = msgspec.structs.replace(
        report, compiled=msgspec.structs.replace(report.compiled, device_share=value)
    )
    assert strict(render.json(report))["compiled"]["device_share"] is None


@given(hostile.names)
@settings(max_examples=60, deadline=None)
def test_no_name_can_break_the_json(name: str) -> None:
    report = samples.with_name(name)
    text = render.json(report)
    assert not set(text) & {chr(code) for code in (*range(32), *range(127, 160)) if code != 10}
    read = strict(text)
    whole = not any("\ud800" <= char <= "\udfff" for char in name)
    assert read["trace"]["path"] == name or not whole
    text.encode()


def test_half_surrogates_are_shown_escaped() -> None:
    assert strict(render.json(samples.with_name("a\ud800b")))["trace"]["path"] == "a\\ud800b"
