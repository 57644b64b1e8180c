"""Every pathology in tests/cases as a page to be read."""

from __future__ import annotations

import pytest

from case_reports import CASES, run


def test_r47_wording(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, str(CASES / "R47_rocm.json"))
    assert "CUDA" not in out
    assert "CUPTI" not in out


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
@pytest.mark.parametrize("arguments", [[], ["--format", "md"], ["--format", "md", "--brief"]])
def test_every_case_renders(capsys: pytest.CaptureFixture[str], name: str, arguments: list[str]) -> None:
    status, out, err = run(capsys, str(CASES / name), *arguments)
    if name == "R53_jax_xla.json":
        assert status == 2
        return
    assert (status, err) == (0, "")
    assert out.strip()
    if not arguments:
        assert max(len(line) for line in out.splitlines()) <= 80


def test_r32_text_does_not_count_what_was_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, str(CASES / "R32_gpu_only.json"))
    assert "launch calls were not recorded" in out
    assert "0 launch calls" not in out
