"""For every test: a cache of its own, and what is done where torch or a browser is not installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping

import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The browser that browser tests drive."""
    return next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)


# A busy machine is no failure; and CI says the same about the same code each time.
settings.register_profile("project", deadline=None, derandomize=IN_CI)
settings.load_profile("project")

_FILE = re.compile(r"\S+/\S+\.(?:json|gz|zip)\b")
_INSTALLED: Mapping[str, Callable[[], bool]] = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "chromium": lambda: chromium() is not None,
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """``@pytest.mark.needs("torch")``: skipped with a reason, except in CI, where it has to be there."""
    for mark in item.iter_markers("needs"):
        for what in mark.args:
            if not _INSTALLED[what]():
                missing = f"{what} is not installed"
                if IN_CI:
                    pytest.fail(f"{missing}, and CI runs every test", pytrace=False)
                pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI ``pytest.importorskip("torch")`` is a failure too."""
    report = yield
    if IN_CI and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if "could not import 'torch" in reason:
            report.outcome = "failed"
            report.longrepr = f"{reason}; CI runs every test"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were skipped, in a few lines."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        # one line for all that lack a file of the same place
        reasons[_FILE.sub("a file", reason.removeprefix("Skipped: "))] += 1
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test reads or stores is in the user's cache; programs that tests start inherit this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINETOSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
