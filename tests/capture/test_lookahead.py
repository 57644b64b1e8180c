import sys
import threading

from kinetoscope.capturing.lookahead import Lookahead


def test_a_warm_up_loop_is_not_the_whole_program() -> None:
    ahead = Lookahead()
    number = -1
    remaining: dict[int, int | None] = {}

    def step() -> None:
        nonlocal number
        number += 1
        ahead.look(sys._getframe(), number, began=True)
        remaining[number] = ahead.remaining(number)

    def program() -> None:
        for _ in range(8):
            step()
        for _ in range(40):
            step()

    # in a thread of its own: below the test lie the loops of pytest, whose length is unknown
    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    assert remaining[2] == 6
    assert remaining[8] == 40
    assert remaining[18] == 30


def test_a_loop_that_comes_later_is_waited_for_only_if_it_is_longer() -> None:
    ahead = Lookahead()
    number = -1
    better: dict[int, bool] = {}

    def step() -> None:
        nonlocal number
        number += 1
        ahead.look(sys._getframe(1), number, began=True)
        better[number] = ahead.has_better_later(number, 40)

    def program() -> None:
        step()
        for _ in range(12):
            step()
        for _ in range(5):
            step()
        for _ in range(60):
            step()

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    # with 39 left or fewer; of the last 60 nothing comes after
    assert [place for place in better if better[place]] == list(range(18))
    assert len(better) == 78
