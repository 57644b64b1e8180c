"""Steps counted by the pulse are the steps that the clock would have counted."""

from __future__ import annotations

import random

import pytest

from kinetoscope.capturing import whole
from kinetoscope.capturing.compilations import CompilationsByStep
from kinetoscope.capturing.counting import StepCount
from kinetoscope.capturing.hooks import StepHooks
from kinetoscope.capturing.pulse import Pulse
from kinetoscope.capturing.whole import Watchdog


def told(events: str, ahead: dict[int, int] | None = None) -> list[int]:
    """Places of the events that begin a step: letters are callables, upper case optimizers.

    ``ahead``: after the event at that place so many steps are left to the pulse, as hooks leave them.
    """
    count, begun = StepCount(), []
    pulse = count.pulse
    for place, letter in enumerate(events):
        key = ord(letter)
        counted = len(pulse.times_ns)
        if letter.isupper() and pulse.left and pulse.optimizer:
            pulse.stepped(key)
            begun += [place] * (len(pulse.times_ns) - counted)
        elif letter.islower() and pulse.left:
            pulse.called(key)
            begun += [place] * (len(pulse.times_ns) - counted)
        else:
            if count.event("optimizer" if letter.isupper() else "compiled", key):
                count.begin(place)
                begun.append(place)
            count.count_ahead((ahead or {}).get(place, 0))
    count.catch_up()
    return begun


@pytest.mark.parametrize("round_of_events", ["f", "fg", "fO", "ffO", "O", "fgOhh", "fDgGd"])
def test_the_pulse_counts_what_the_clock_counts(round_of_events: str) -> None:
    events = round_of_events * 30
    # What a step is has settled by the 20th event at the latest.
    expected = told(events)
    for seed in range(20):
        rng = random.Random(seed)
        ahead = {place: rng.randrange(6) for place in range(20, len(events))}
        assert told(events, ahead) == expected


def test_it_asks_again_when_steps_have_stopped() -> None:
    pulse = Pulse()
    pulse.count(5, key=1, optimizer=0, due=False)
    events = 0
    while pulse.left:
        pulse.called(2)
        events += 1
        assert events < 10_000
    assert pulse.take() == []


def test_a_program_that_changes_its_steps_is_followed_while_they_are_counted_ahead() -> None:
    # Training of f for 70 steps, then only g is called: after 5,000 calls training is taken to be over.
    events = "fO" * 70 + "g" * 9000
    begun = told(events, dict.fromkeys(range(200), 50))
    assert begun[:71] == [*range(0, 140, 2), 140]
    over = [place for place in begun if place > 141]
    assert over == list(range(over[0], len(events)))
    assert over[0] < 141 + 1000 + 5000 + 10


def test_the_watchdog_may_be_disarmed_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = Watchdog(lambda: None)
    watchdog.arm(60.0, growth_bytes=1)

    def disarmed_meanwhile() -> int:
        watchdog.disarm()
        return 0

    monkeypatch.setattr(whole, "resident_bytes", disarmed_meanwhile)
    assert watchdog.passed() is None


def test_times_of_counted_steps() -> None:
    count = StepCount()
    count.event("compiled", 1)
    count.begin(100)
    count.timer.begin()
    count.count_ahead(3)
    for _ in range(3):
        count.pulse.called(1)
    assert count.current() == 3
    first, second, third = count.pulse.times_ns
    assert first <= second <= third
    count.catch_up()
    assert (count.number, count.timer.counted) == (3, 3)
    assert count.timer.end()["host_ns"][1:] == [second - first, third - second]


def test_compilations_belong_to_the_step_that_is_open() -> None:
    steps = [-1]
    seen = CompilationsByStep(lambda: steps[-1])
    seen.record_written(True)  # before the first step: of none
    for records in ["bb", "", "b", "r", "", ""]:
        steps.append(steps[-1] + 1)
        for record in records:
            seen.record_written(record == "b")
    assert seen.per_step(5) == [2, 0, 1, 0, 0]
    # Step 3 wrote a record without beginning anything: it was not quiet, step 4 was.
    assert [seen.quiet_steps(step) for step in (4, 5, 6)] == [0, 1, 2]
    seen.restart()
    assert (seen.per_step(2), seen.quiet_steps(0), seen.quiet_steps(2)) == ([0, 0], 0, 2)


def test_a_mark_ends_before_anything_else_is_done_where_the_next_step_begins() -> None:
    done: list[str] = []
    hooks = StepHooks(lambda kind, key, subject: done.append(f"{kind} {key}"), done.append, lambda: True)
    hooks.only_key = 7
    hooks.pulse.closing = lambda: done.append("mark ended")
    for key in (7, 8):
        leave = hooks._entering(key)()
        hooks._entering(7)()()  # called from within: no step of its own
        leave()
    # after an optimizer's step it is the next call, whatever is called
    hooks.only_key, hooks.pulse.due = None, True
    hooks._entering(9)()()
    hooks.pulse.due = False
    hooks._entering(9)()()
    hooks.pulse.closing = None
    hooks._entering(7)()
    assert done == ["mark ended", "compiled 7", "mark ended", "compiled 9", "compiled 9", "compiled 7"]


def test_a_step_is_due_after_the_optimizers() -> None:
    count = StepCount()
    due = []
    for kind, key in (("compiled", 1), ("optimizer", 2), ("compiled", 1), ("compiled", 3), ("optimizer", 2)):
        count.event(kind, key)
        due.append(count.pulse.due)
    assert due == [False, True, False, False, True]
