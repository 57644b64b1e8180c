"""What a fix is worth: predictions for findings, made once for each set of facts.

Costs and savings are those of a step without a profiler where the capture timed such steps, else of
the profiled step; `Finding.basis` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from kinetoscope.analyses.idle_causes_names import Cause
from kinetoscope.analyses.launch_bound import LaunchBound, launch_bound
from kinetoscope.analyses.wording import duration, percent
from kinetoscope.findings.facts import Facts, severity_of
from kinetoscope.replay import build, run
from kinetoscope.replay.changes import rows_of
from kinetoscope.replay.cuda_graphs import graph_calls
from kinetoscope.replay.predict import CUDA_GRAPHS, NO_BREAKS, NO_COMPILE, Before, Change, Prediction, predict
from kinetoscope.schema import Basis, Finding, FindingCode, Saving, Severity
from kinetoscope.trace import Int64

__all__ = ["Worth", "with_savings", "worth_of"]

#: a cause that takes less of a step is not worth a line
LITTLE = 0.01
#: two changes are worth being named together if they leave less than this of the better one's step
_NOTABLY_LESS = 0.9


@dataclass(frozen=True, eq=False)
class Worth:
    """The steps of some facts, ready to be changed; made by `worth_of`."""

    facts: Facts

    @cached_property
    def bound(self) -> LaunchBound | None:
        """Who waits for whom."""
        return launch_bound(self.facts.links)

    @cached_property
    def before(self) -> Before | None:
        """The replayed steps; None where there is nothing to replay."""
        model = build(self.facts.links)
        if model is None:
            return None
        capture = self.facts.capture
        before = Before.of(model, None if capture is None else capture.unprofiled)
        return before if before.step_ns > 0 else None

    @property
    def basis(self) -> Basis:
        """Which time costs and savings are of."""
        known = self.before is not None and self.before.unprofiled_ns is not None
        return "unprofiled" if known else "profiled"

    def predict(self, change: Change) -> Prediction | None:
        """The step after a change."""
        return None if self.before is None else predict(self.before, [change])

    @cached_property
    def cuda_graphs(self) -> Prediction | None:
        """With CUDA graphs; None where no compiled graph of the steps could be one."""
        if self.before is None or not len(graph_calls(self.before.model)):
            return None
        return self.predict(CUDA_GRAPHS)

    @cached_property
    def no_breaks(self) -> Prediction | None:
        """Without graph breaks."""
        return self.predict(NO_BREAKS)

    @cached_property
    def whole_cuda_graphs(self) -> Prediction | None:
        """Without graph breaks and with CUDA graphs; None where one of the two does nearly as much."""
        graphs, whole = self.cuda_graphs, self.no_breaks
        if (
            self.before is None
            or graphs is None
            or whole is None
            or not len(self.facts.nesting.continuations)
        ):
            return None
        both = predict(self.before, [NO_BREAKS, CUDA_GRAPHS])
        better = min(graphs.predicted_ns, whole.predicted_ns)
        return both if both.verdict != "no gain" and both.predicted_ns < _NOTABLY_LESS * better else None

    def host_ns(self, *causes: Cause) -> int:
        """Host time of a step that has these causes, waits left out; median over the steps."""
        if self.before is None:
            return 0
        host = self.before.best.model.host
        mine = np.isin(host.cause, causes)
        return self._median(host.step[mine], host.dur_ns[mine])

    @cached_property
    def _waits_ns(self) -> Int64:
        """How long each wait of the model takes when nothing is changed."""
        assert self.before is not None
        return run(self.before.best.model).waits_ns

    def wait_ns(self, cause: Cause) -> int:
        """Time of a step that the host waits in calls of this cause; median over the steps.

        As replayed: without a profiler the host is sooner at a wait, and waits longer.
        """
        return 0 if self.before is None else round(float(np.median(self._waited(cause))))

    def most_ns(self, cause: Cause, change: Change) -> int:
        """The most that goes of any step with a change: host time, and waits in calls of this cause."""
        if self.before is None:
            return 0
        host = self.before.best.model.host
        less = host.dur_ns - self.before.changed(change).host.dur_ns
        return int((self._each(host.step, less) + self._waited(cause)).max())

    def _waited(self, cause: Cause) -> Int64:
        """[steps] time in which the host waits in calls of this cause."""
        assert self.before is not None
        waits = self.before.model.waits
        mine = waits.cause == cause
        starts = self.facts.trace.columns.start_ns[waits.row[mine]]
        return self._each(self.facts.links.steps.at(starts), self._waits_ns[mine])

    def rows(self, *causes: Cause) -> Int64:
        """Slices that stand for these causes in the replayed steps, waits included."""
        if self.before is None:
            return np.empty(0, np.int64)
        return rows_of(self.before.model, *causes)

    def count(self, rows: Int64) -> int:
        """How many of these slices there are in a step; median over the steps."""
        starts = self.facts.trace.columns.start_ns[rows]
        return self._median(self.facts.links.steps.at(starts), np.ones(len(rows), np.int64))

    def finding(
        self,
        code: FindingCode,
        title: str,
        detail: str,
        fix: str | None,
        *,
        cost_ns: int | None,
        saving: Saving | None = None,
        goes_ns: int | None = None,
        rows: Int64 | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding that costs ``cost_ns`` a step; what it saves tells how much it matters, if known.

        ``goes_ns``: what can go with the fix, if that is more than the cost itself.
        """
        step = self.before.step_ns if self.before is not None else self.facts.step_ns
        saving = _at_most(saving, cost_ns if goes_ns is None else goes_ns)
        share = None if cost_ns is None or not step else min(1.0, cost_ns / step)
        matters = share if saving is None or not step else saving.best / step
        return Finding(
            code=code,
            title=title,
            severity=severity or severity_of(matters),
            detail=detail,
            fix=fix,
            doc=f"docs/findings.md#{code}",
            share=share,
            cost_ns_per_step=cost_ns,
            saving_ns_per_step=saving,
            basis=self.basis,
            saving_basis=self.basis,
            evidence=[] if rows is None else self.facts.events(rows),
        )

    def _median(self, step: Int64, amount: Int64) -> int:
        """Median over the replayed steps of the sum of these amounts."""
        return round(float(np.median(self._each(step, amount))))

    def _each(self, step: Int64, amount: Int64) -> Int64:
        """[steps] the sum of these amounts in each replayed step."""
        assert self.before is not None
        model = self.before.model
        each = np.zeros(model.last_step - model.first_step + 1, np.int64)
        inside = (step >= model.first_step) & (step <= model.last_step)
        np.add.at(each, step[inside] - model.first_step, amount[inside])
        return each


def _at_most(saving: Saving | None, goes_ns: int | None) -> Saving | None:
    """A saving that is no more than what goes: medians of steps that differ do not add up."""
    if saving is None or goes_ns is None:
        return saving
    return replace(saving, low=min(saving.low, goes_ns), best=min(saving.best, goes_ns))


def worth_of(facts: Facts) -> Worth:
    """The worth of fixes for ``facts``: families of findings share one, which lasts as long as these."""
    kept = vars(facts)
    found = kept.get("_worth")
    if not isinstance(found, Worth):
        found = kept["_worth"] = Worth(facts)
    return found


def said_together(worth: Worth) -> str:
    """What CUDA graphs and no breaks give together, with a space before it, or nothing."""
    both = worth.whole_cuda_graphs
    if both is None:
        return ""
    return f" Without graph breaks and with CUDA graphs, it would be {duration(both.predicted_ns)}."


def said(prediction: Prediction | None) -> str:
    """A prediction in one sentence, or nothing."""
    if prediction is None:
        return ""
    step = f"{duration(prediction.replayed_ns)} a step"
    if prediction.verdict == "no gain":
        return f"Replayed without it, a step of {duration(prediction.replayed_ns)} gains nothing measurable."
    between = f"between {duration(prediction.paired_low_ns)} and {duration(prediction.paired_high_ns)}"
    unsure = ", so it may gain nothing" if prediction.verdict == "unsure" else ""
    return f"Replayed without it, {step} become {duration(prediction.predicted_ns)} ({between}{unsure})."


def with_savings(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with what they would save where other families could not know it."""
    breaks = [finding for finding in findings if finding.code == "graph-break"]
    total = sum(finding.cost_ns_per_step or 0 for finding in breaks)
    found = []
    for finding in findings:
        if finding.code == "graph-break" and total and finding.cost_ns_per_step:
            found.append(_break_with_saving(facts, finding, finding.cost_ns_per_step / total))
        elif finding.code == "cuda-graph-skip" and finding.saving_ns_per_step is None:
            found.append(_with(finding, worth_of(facts), worth_of(facts).cuda_graphs))
        elif finding.code == "compile-in-window" and facts.steps:
            worth = worth_of(facts)
            found.append(_with(finding, worth, worth.predict(NO_COMPILE)))
        else:
            found.append(finding)
    return found


def _with(finding: Finding, worth: Worth, prediction: Prediction | None) -> Finding:
    """A finding with what a prediction saves; steps that only a median sees may gain nothing by it."""
    if prediction is None or prediction.verdict == "no gain":
        return finding
    return replace(finding, saving_ns_per_step=prediction.saving, saving_basis=worth.basis)


def _break_with_saving(facts: Facts, finding: Finding, share: float) -> Finding:
    """A graph break with its part of what removing all of them saves."""
    worth = worth_of(facts)
    prediction = worth.no_breaks
    if prediction is None:
        return finding
    if prediction.verdict == "no gain":
        return replace(
            finding,
            severity="info",
            saving_ns_per_step=Saving(low=0, best=0, high=round(prediction.saving.high * share)),
            saving_basis=worth.basis,
            detail=f"{finding.detail} Harmless here: replayed without breaks, a step of"
            f" {duration(prediction.replayed_ns)} gains nothing measurable.{said_together(worth)}",
        )
    saving = prediction.saving
    part = Saving(
        low=round(saving.low * share), best=round(saving.best * share), high=round(saving.high * share)
    )
    told = percent(saving.best / prediction.replayed_ns)
    matters = severity_of(part.best / prediction.replayed_ns)
    unsure = "; steps vary by as much from run to run" if prediction.verdict == "unsure" else ""
    return replace(
        finding,
        # what is torch's own business stays a remark
        severity=finding.severity if finding.severity == "info" else matters,
        saving_ns_per_step=part,
        saving_basis=worth.basis,
        detail=f"{finding.detail} Replayed without breaks, with one wrapper for forward and backward"
        f" each, a step is {told} shorter{unsure}.{said_together(worth)}",
    )
