from kinetoscope.capturing.steps import EventKind, StepClock


def steps(events: str, clock: StepClock | None = None) -> str:
    """Which events begin a step: each letter is a callable, upper case an optimizer; `|` marks a step."""
    clock = clock or StepClock()
    kinds: dict[bool, EventKind] = {True: "optimizer", False: "compiled"}
    return "".join(("|" if clock.event(kinds[c.isupper()], ord(c)) else "") + c for c in events)


def test_each_call_of_the_only_callable_is_a_step() -> None:
    assert steps("ffff") == "|f|f|f|f"


def test_two_callables_in_turn_make_one_step() -> None:
    assert steps("fgfgfg") == "|fg|fg|fg"


def test_optimizer_steps_end_steps() -> None:
    assert steps("fOfOfO") == "|fO|fO|fO"


def test_accumulated_gradients_make_one_step() -> None:
    assert steps("ffOffOffO")[4:] == "O|ffO|ffO"


def test_optimizer_alone() -> None:
    assert steps("OOOO") == "O|O|O|O"


def test_two_optimizers_make_one_step() -> None:
    assert steps("fDgGfDgGfDgG") == "|fD|gGfD|gGfD|gG"


def test_anchor_called_once_gives_way() -> None:
    assert steps("pfffff") == "|pff|f|f|f"


def test_anchor_that_stopped_gives_way() -> None:
    marked = steps("ppp" + "f" * 20)
    assert marked.startswith("|p|p|p" + "f" * 15 + "|f|f")


def test_generation_tells_that_steps_mean_something_else() -> None:
    clock = StepClock()
    steps("ff", clock)
    before = clock.generation
    steps("O", clock)
    assert clock.generation == before + 1


def test_frozen_clock_keeps_its_meaning() -> None:
    clock = StepClock()
    steps("ff", clock)
    clock.freeze()
    assert steps("OfggggOf", clock) == "O|fggggO|f"
    assert clock.only_key() == ord("f")


def test_modules_do_not_count_beside_compiled_functions() -> None:
    clock = StepClock()
    assert clock.event("module", 1)
    assert clock.event("compiled", 2)
    assert not clock.event("module", 1)
    assert clock.unit == "compiled"


def test_training_that_is_over_does_not_stop_the_clock() -> None:
    clock = StepClock()
    steps("fOf", clock)
    assert "|" in steps("f" * 5100, clock)


def test_functions_that_are_each_called_once() -> None:
    clock = StepClock()
    assert clock.called_once() == 0
    steps("abcdefgh", clock)
    assert clock.called_once() == 8
    steps("c", clock)
    assert clock.called_once() == 0
    trained = StepClock()
    steps("aObOcO", trained)
    assert trained.called_once() == 0
