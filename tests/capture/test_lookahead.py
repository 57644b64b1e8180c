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
