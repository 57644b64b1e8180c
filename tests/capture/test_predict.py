import os
import sys
from typing import Any

import _pytest
import pluggy
import pytest

from kinetoscope.capturing.predict import Repeats, later_repeats, predict_repeats, seems_to_compile

NOT_OURS = tuple(os.path.dirname(module.__file__ or "") for module in (_pytest, pluggy, pytest))
found: list[Repeats] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    found.clear()


def look(*_: Any) -> None:
    # The test's own frames are the user's code here; pytest's loops above them are not.
    found.append(predict_repeats(sys._getframe(1), NOT_OURS))


def unknown() -> Any:
    return iter([1, 2])


def test_no_loop() -> None:
    look()
    assert found[0].count == 1
    assert not found[0].in_loop


def test_range() -> None:
    for _ in range(8):
        look()
    assert found[0] == Repeats(8, 8, True)


def test_names_and_nesting() -> None:
    n, items = 3, [1, 2]
    for _ in range(n):
        for _ in enumerate(items):
            look()
    assert found[0] == Repeats(6, 6, True)


def test_the_callers_loop_counts() -> None:
    def step() -> None:
        look()

    for _ in range(4):
        step()
    assert found[0].count == 4


def test_a_loop_around_the_definition_does_not() -> None:
    made = []
    for _ in range(5):
        made.append(lambda: look())  # noqa: PERF401
    made[0]()
    assert found[0].count == 1


def test_while_is_unknown() -> None:
    for _ in range(7):
        while True:
            look()
            break
    assert found[0] == Repeats(None, 7, True)


def test_an_iterator_is_unknown_and_is_not_consumed() -> None:
    seen = 0
    for _ in unknown():
        look()
        seen += 1
    assert found[0].count is None
    assert seen == 2


def test_comprehension_and_zip() -> None:
    values = [1, 2, 3]
    [look(v) for v, _ in zip(values, range(10), strict=False)]
    assert found[0] == Repeats(3, 3, True)


def test_the_else_of_a_loop_is_not_in_it() -> None:
    for _ in range(9):
        pass
    else:
        look()
    assert found[0].count == 1


def program(text: str) -> Any:
    """Runs a program that calls ``begin``, and says whether it seemed to compile something by then."""
    seen: list[bool] = []
    names = {"begin": lambda: seen.append(seems_to_compile(sys._getframe(1))), "__name__": "__main__"}
    exec(compile(text, "program.py", "exec"), names)
    return seen[0]


def test_a_program_that_names_compile_seems_to_compile() -> None:
    assert program("begin()\nf = torch.compile(f) if 0 else None")
    assert program("def g():\n    return (lambda: model.compile())\nbegin()")
    assert program("class Trainer:\n    def fit(self):\n        self.compiled = 1\nbegin()")
    assert program("begin()\nargs = 0 and Arguments(torch_compile=True)")
    # called from a function that does not, in a module with one that does
    assert program("def make():\n    begin()\ndef wrap():\n    return torch.compile(f)\nmake()")


def test_a_program_that_does_not_name_it_does_not() -> None:
    assert not program("begin()\nx = 'compile'\ny = [1 for _ in range(3)]")
    # a name that was imported from elsewhere is not the program's code
    assert not program("from ast import parse\nclass A:\n    pass\nbegin()")


later: list[Repeats] = []


def step(*_: Any) -> int:
    later.append(later_repeats(sys._getframe(1), NOT_OURS))
    return 0


def test_a_call_to_compile_and_then_a_loop() -> None:
    later.clear()
    step()
    for _ in range(3):
        step()
    with open(os.devnull):
        for _ in range(50):
            print(end="")
            step()
    for _ in range(4):
        step()
    # before each: the longest that is still to come
    assert [later[place].at_least for place in (0, 1, 4, 54)] == [50, 50, 4, 1]
    assert [later[place].in_loop for place in (0, 54)] == [True, False]


def test_the_loop_may_call_what_makes_the_call() -> None:
    later.clear()

    def made() -> None:
        step()

    for _ in range(3):
        made()
    for _ in range(50):
        made()
    assert [later[place].at_least for place in (0, 3)] == [50, 1]


def test_a_loop_that_trains_is_no_warm_up_for_one_that_does_not() -> None:
    later.clear()

    class Loss:
        def backward(self) -> None: ...

    for _ in range(3):
        step()
        Loss().backward()
    for _ in range(50):
        step()
    for _ in range(20):
        step()
        Loss().backward()
    assert later[0].at_least == 20


def test_what_is_behind_a_return_is_not_reached() -> None:
    later.clear()

    def program() -> None:
        step()
        return
        for _ in range(50):
            step()

    program()
    assert not later[0].in_loop


def test_a_later_loop_of_unknown_length() -> None:
    later.clear()
    step()
    for _ in unknown():
        step()
    assert later[0] == Repeats(None, 1, True)


def test_loops_that_may_not_be_reached_do_not_count() -> None:
    later.clear()
    step()
    if len(later) > 5:
        for _ in range(50):
            step()

    def never() -> None:
        for _ in range(50):
            step()

    assert not later[0].in_loop
    assert callable(never)


def test_loops_that_call_something_else_do_not_count() -> None:
    later.clear()
    print(step(len(str(os.getpid()))), end="")
    for _ in range(50):
        print(len(str(os.getpid())), end="")
    assert not later[0].in_loop
