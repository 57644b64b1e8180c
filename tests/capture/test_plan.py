import json
import os
import time
from pathlib import Path

import pytest

from kinetoscope.capturing.directory import CaptureDirectory
from kinetoscope.capturing.options import RunOptions
from kinetoscope.capturing.plan import Plan, RankAgreement, make_plan

MS = 1_000_000


def test_plenty_of_steps() -> None:
    assert make_plan(RunOptions(), 2 * MS, None) == Plan(10, 20, 10)


def test_long_steps_are_fewer() -> None:
    assert make_plan(RunOptions(), 4000 * MS, None) == Plan(2, 5, 2)
    assert make_plan(RunOptions(steps=2), 60_000 * MS, None).profiled == 2


def test_many_short_steps_are_timed_longer() -> None:
    assert make_plan(RunOptions(), MS // 2, 100_000).before == 200
    assert make_plan(RunOptions(), MS // 2, 420).before == 100
    assert make_plan(RunOptions(), 3 * MS, 100_000).before == 50


@pytest.mark.parametrize("remaining", range(60))
def test_no_more_than_there_are(remaining: int) -> None:
    plan = make_plan(RunOptions(), MS, remaining)
    assert plan.profiled >= 1
    assert plan.before + plan.profiled + plan.after <= max(1, remaining)


def agreement(directory: Path, rank: int) -> RankAgreement:
    return RankAgreement(CaptureDirectory(directory, rank), 2)


def test_ranks_agree(tmp_path: Path) -> None:
    leader, follower = agreement(tmp_path, 0), agreement(tmp_path, 1)
    assert follower.look() is None
    decided = leader.propose(5, Plan(1, 2, 3))
    assert decided == (7, Plan(1, 2, 3))
    assert follower.look() == decided
    leader.finish()
    assert not list(tmp_path.iterdir())


def test_an_earlier_launch_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_PORT", "1")
    agreement(tmp_path, 0).propose(5, Plan(1, 2, 3))
    monkeypatch.setenv("MASTER_PORT", "2")
    assert agreement(tmp_path, 1).look() is None


def test_an_old_file_is_not_believed(tmp_path: Path) -> None:
    agreement(tmp_path, 0).propose(5, Plan(1, 2, 3))
    old = time.time() - 3600
    os.utime(tmp_path / ".window.json", (old, old))
    assert json.loads((tmp_path / ".window.json").read_text())["begin"] == 7
    assert agreement(tmp_path, 1).look() is None


def test_a_program_alone_agrees_with_nobody(tmp_path: Path) -> None:
    assert not RankAgreement(CaptureDirectory(tmp_path), None).active
