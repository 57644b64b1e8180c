"""The terminal report of several inputs."""

from __future__ import annotations

import re

import msgspec

import report_samples as samples
from kinetoscope.schema import OriginShare
from test_render_text import text

replace = msgspec.structs.replace


def test_ranks_have_one_line_each_and_are_not_added_up() -> None:
    shown = text(samples.two_ranks())
    assert re.search(r"^0 +yes +3\.392 ms +4\.3 % .*graph-break$", shown, re.M)
    assert re.search(r"^1 +yes +3\.392 ms +4\.3 % .*nothing found$", shown, re.M)
    assert "2 ranks; below: rank 0" in shown
    assert "2,420" not in shown
    assert "rank 0 of 2" in shown


def test_communication_is_no_work_of_who_started_it() -> None:
    report = samples.two_ranks()
    assert report.kernels is not None
    parts = [
        OriginShare(origin="eager", count=9, total_ns=900, share=0.9, communication_ns=700),
        OriginShare(origin="inductor_triton", count=1, total_ns=100, share=0.1),
    ]
    shown = text(replace(report, kernels=replace(report.kernels, by_origin=parts)))
    assert "GPU work  communication 70 %, eager 20 %, Inductor Triton 10 %\n" in shown


def test_inputs_that_say_no_rank_are_numbered() -> None:
    report = samples.two_ranks()
    assert report.ranks is not None
    unsaid = [replace(one, trace=replace(one.trace, rank=None)) for one in (report, *report.ranks)]
    shown = text(replace(unsaid[0], ranks=unsaid[1:]))
    assert re.search(r"^number 1 +yes", shown, re.M)
    assert "2 inputs; below: number 1" in shown
    assert "rank 0" not in shown
