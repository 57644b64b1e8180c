"""When the device of a program is recorded from its start; a stand-in for the profiler notes its calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.capturing import whole
from kinetoscope.capturing.options import RunOptions
from kinetoscope.capturing.whole import WholeProfile


class Told:
    """What the profiler was told, and whether the program has a device."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.device: tuple[str, Any] | None = None
        self.supports_device = True
        self.knows_all_threads = True
        self.is_open = False
        self.warnings: list[str] = []

    def session(self, *, all_threads: bool, **_: Any) -> Any:
        told = self
        kind = all_threads and self.knows_all_threads
        has_device = told.device is not None and told.supports_device

        class Session:
            activities = ["CPU", "CUDA"] if has_device else ["CPU"]
            all_threads = kind

            def start(self) -> None:
                of_whom = "" if self.all_threads else " of this thread"
                told.calls.append("start " + "+".join(self.activities) + of_whom)

            def stop(self) -> None:
                told.calls.append("stop")

            def left_open(self) -> bool:
                return told.is_open

        return Session()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(whole, "ProfileSession", told.session)
    monkeypatch.setattr(whole, "device_module", lambda: told.device)
    monkeypatch.setattr(whole, "_DETACH_SECONDS", 0.0)
    monkeypatch.setattr(whole, "synchronize", lambda: told.calls.append("synchronize"))
    return told


@pytest.fixture
def profile(told: Told, tmp_path: Path) -> WholeProfile:
    profile = WholeProfile(RunOptions(target="program.py", directory=str(tmp_path)), told.warnings.append)
    profile.start()
    return profile


def test_the_device_of_a_long_program_is_never_recorded(told: Told, profile: WholeProfile) -> None:
    told.device = ("cuda", None)
    assert profile.missed_device
    profile.discard()
    # nothing was attached to the device, so nothing has to be waited for
    assert told.calls == ["start CPU", "stop"]
    assert not profile.recorded_device
    assert not profile.missed_device


def test_the_device_of_a_program_that_may_be_short_is_recorded_from_its_first_step(
    told: Told, profile: WholeProfile
) -> None:
    told.device = ("cuda", None)
    for _ in range(3):
        profile.record_device()
    assert told.calls == ["start CPU", "stop", "start CPU+CUDA"]
    assert profile.recorded_device
    assert not profile.missed_device


def test_the_runtime_is_called_while_the_profiler_detaches(
    told: Told, profile: WholeProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kineto detaches at the end of such a call: with none of ours, one of the program's would do it."""
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    told.device = ("cuda", None)
    profile.record_device()
    told.calls.clear()
    profile.discard()
    assert (told.calls[0], told.calls[-1]) == ("stop", "synchronize")
    assert "TEARDOWN_CUPTI" not in os.environ


def test_without_a_device_nothing_starts_anew(told: Told, profile: WholeProfile) -> None:
    profile.record_device()
    assert told.calls == ["start CPU"]


def test_nothing_is_waited_for_where_nothing_is_recorded_whole(told: Told, tmp_path: Path) -> None:
    """As with ``--cold``, or beside a profiler of the program's: no device's work is lost then."""
    told.device = ("cuda", None)
    profile = WholeProfile(RunOptions(target="program.py", directory=str(tmp_path)), told.warnings.append)
    assert not profile.missed_device
    profile.record_device()
    assert told.calls == []


def test_a_device_that_cannot_be_recorded_is_tried_once(told: Told, profile: WholeProfile) -> None:
    told.device, told.supports_device = ("other", None), False
    for _ in range(3):
        profile.record_device()
    assert told.calls == ["start CPU", "stop", "start CPU"]
    assert not profile.recorded_device


def test_a_profile_that_leaves_something_open_is_not_followed_by_one_of_its_kind(
    told: Told, profile: WholeProfile
) -> None:
    told.device, told.is_open = ("cuda", None), True
    profile.record_device()
    assert told.calls == ["start CPU", "stop", "start CPU+CUDA of this thread"]
    assert not told.warnings


def test_where_there_is_one_kind_of_profile_what_is_open_is_no_place_to_begin(
    told: Told, tmp_path: Path
) -> None:
    told.knows_all_threads = False
    for is_open in (False, True):
        told.calls.clear()
        told.device, told.is_open = None, is_open
        profile = WholeProfile(RunOptions(target="program.py", directory=str(tmp_path)), told.warnings.append)
        profile.start()
        told.device = ("cuda", None)
        profile.record_device()
        again = [] if is_open else ["start CPU+CUDA of this thread"]
        assert told.calls == ["start CPU of this thread", "stop", *again]
        assert profile.running is not is_open
        assert told.warnings == ([whole.CANNOT_BEGIN] if is_open else [])
