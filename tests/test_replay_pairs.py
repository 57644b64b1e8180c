"""Predictions against measured pairs: a trace before a fix, and what a step takes after it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import kinetoscope
from helpers import HAS_SHARED, NO_SHARED, SHARED, TRACES, annotation_window, shipped
from kinetoscope.ingest.unprofiled import Unprofiled
from kinetoscope.link import link
from kinetoscope.replay import Model, build, cuda_graphs
from kinetoscope.replay import predict as predictions
from kinetoscope.replay.constants import BEST
from kinetoscope.replay.predict import Before, Prediction, predict


def pair(name: str, change: predictions.Change) -> tuple[Prediction, list[float], list[float]]:
    if not HAS_SHARED:
        pytest.skip(NO_SHARED)
    where = SHARED / "traces" / "gpu" / f"pair_{name}"
    facts = json.loads((where / "facts.json").read_text())
    model = build(link(kinetoscope.load(str(where / "trace.json.gz"))))
    assert model is not None
    before = Before.of(model, Unprofiled(round(facts["before_ms"][0] * 1e6), "facts.json"))
    return predict(before, [change]), facts["before_ms"], facts["after_ms"]


def test_pair_decode() -> None:
    found, _, after = pair("decode", predictions.CUDA_GRAPHS)
    assert found.verdict == "gain"
    # measured in a process in which a profiler had run: 10 to 30 % too high where the host is the limit
    assert found.predicted_ns / 1e6 == pytest.approx(after[0], rel=0.25)
    assert found.low_ns / 1e6 <= after[0] <= found.high_ns / 1e6


def test_decode_of_another_capture() -> None:
    # six layers: eager, compiled and with CUDA graphs in one trace; 1.631 and 0.175 ms without a profiler
    links = annotation_window(shipped("gpt_decode"), "compiled")
    model = build(links)
    assert model is not None
    found = predict(Before.of(model, Unprofiled(1_631_000, "measured")), [predictions.CUDA_GRAPHS])
    assert found.verdict == "gain"
    assert found.predicted_ns == pytest.approx(174_700, rel=0.12)
    assert found.low_ns <= 174_700 <= found.high_ns


def test_pair_big_batch_gains_nothing() -> None:
    found, _, after = pair("big_batch", predictions.CUDA_GRAPHS)
    assert found.is_device_bound
    assert found.verdict == "no gain"
    assert found.predicted_ns / 1e6 == pytest.approx(after[0], rel=0.03)
    assert found.low_ns / 1e6 <= after[0] <= found.high_ns / 1e6


def test_pair_breaks_infer() -> None:
    found, before, after = pair("breaks_infer", predictions.NO_BREAKS)
    # In three runs, without the profiler's after-effects, the program took 0.65, 0.84 and 0.52 of its time
    # before; `after` was measured behind a profiler, and may be up to 30 % too high.
    assert 0.52 <= found.predicted_ns / 1e6 / before[0] <= 0.84
    assert after[0] / 1.3 <= found.predicted_ns / 1e6 <= after[0]
    assert found.low_ns / 1e6 <= after[0] / 1.1 <= found.high_ns / 1e6


def test_pair_breaks_train() -> None:
    # 0.66 and 1.03 of the time before in two runs
    found, before, after = pair("breaks_train", predictions.NO_BREAKS)
    assert found.verdict != "no gain"
    assert 0.66 <= found.predicted_ns / 1e6 / before[0] <= 1.03
    assert min(after) / 1.3 <= found.predicted_ns / 1e6 <= max(after)
    assert found.low_ns / 1e6 <= min(after) / 1.1 <= found.high_ns / 1e6


def test_a_cuda_graph_takes_as_long_on_the_device_as_measured() -> None:
    # the trace after the change has the real graph: one launch of 50 kernels a step
    before = build(link(kinetoscope.load(str(TRACES / "pair_decode.trace.json.gz"))))
    after = build(link(kinetoscope.load(str(TRACES / "pair_decode_after.trace.json.gz"))))
    assert before is not None
    assert after is not None
    # a graph that is recorded rests longer between its kernels than one that is not
    events = after.events
    rests = events.gap_ns[1:][events.block[1:] == events.block[:-1]]
    changed = cuda_graphs.cuda_graphs(before, replace(BEST, node_gap_ns=round(float(np.mean(rests)))))

    def graph_ns(model: Model) -> int:
        launched = model.items.argument[model.items.kind == 0]
        return int(model.blocks.length_ns[launched].max())

    assert graph_ns(changed) == pytest.approx(graph_ns(after), rel=0.03)
