"""What several analyses share is made once, whoever asks, and belongs to the links it was made from."""

from __future__ import annotations

import threading
import time

import pytest

from kinetoscope.link.once import Once


def test_made_once_for_all_threads() -> None:
    made: list[int] = []

    def slowly(number: int) -> int:
        made.append(number)
        time.sleep(0.05)
        return number + 1

    once: Once[int] = Once()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(once.get(slowly, 4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5, 5, 5, 5]
    assert made == [4]


def test_functions_are_told_apart() -> None:
    once: Once[int] = Once()
    assert once.get(float, 3) == 3.0
    assert once.get(str, 3) == "3"


def test_an_error_is_everybodys() -> None:
    def fails(number: int) -> int:
        raise ValueError(str(number))

    once: Once[int] = Once()
    for _ in range(2):
        with pytest.raises(ValueError, match="7"):
            once.get(fails, 7)
