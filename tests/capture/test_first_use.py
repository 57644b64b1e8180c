"""The first use of a device; a stand-in for ``torch.cuda``, which initialises itself as that does."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from kinetoscope.capturing.first_use import after_first_use


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that has given its function to a part of it, and calls itself while it is initialised."""
    cuda: Any = ModuleType("stand_in.cuda")
    part: Any = ModuleType("stand_in.cuda.random")
    cuda.state, cuda.error, cuda.count = "new", None, 0

    def _lazy_init() -> None:
        cuda.count += 1
        if cuda.state != "new":
            return
        if cuda.error is not None:
            raise cuda.error
        cuda.state = "beginning"
        cuda._lazy_init()  # as what it calls at its initialisation does
        cuda.state = "initialised"

    cuda.is_initialized = lambda: cuda.state == "initialised"
    cuda._lazy_init = part._lazy_init = _lazy_init
    for module in (cuda, part):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    cuda.part = part
    return cuda


@pytest.mark.parametrize("through", ["cuda", "part"])
def test_it_is_told_once_when_all_is_done(cuda: Any, through: str) -> None:
    original = cuda._lazy_init
    states: list[str] = []
    assert after_first_use(cuda, lambda: states.append(cuda.state))
    module = cuda if through == "cuda" else cuda.part
    for _ in range(3):
        module._lazy_init()
    assert states == ["initialised"]
    # nothing of it stays in the way
    assert cuda._lazy_init is cuda.part._lazy_init is original


def test_an_initialisation_that_fails_is_none(cuda: Any) -> None:
    states: list[str] = []
    assert after_first_use(cuda, lambda: states.append(cuda.state))
    cuda.error = RuntimeError("no driver")
    with pytest.raises(RuntimeError, match="no driver"):
        cuda._lazy_init()
    assert states == []
    cuda.error = None
    cuda._lazy_init()
    assert states == ["initialised"]


def test_what_the_program_has_put_in_its_place_stays(cuda: Any) -> None:
    states: list[str] = []
    original = cuda._lazy_init
    assert after_first_use(cuda, lambda: states.append(cuda.state))
    hooked = cuda._lazy_init

    def of_the_program() -> None:
        hooked()

    cuda._lazy_init = of_the_program
    cuda._lazy_init()
    assert states == ["initialised"]
    assert cuda._lazy_init is of_the_program
    assert cuda.part._lazy_init is original


def test_a_torch_that_cannot_tell(cuda: Any) -> None:
    del cuda._lazy_init
    assert not after_first_use(cuda, lambda: None)
