"""Keep what was measured, small and without names of the machine's folders, for `table.py` and the tests.

Usage: python benchmarks/predictions/keep.py RESULTS [KEPT]

RESULTS is what `measure.py` wrote. KEPT, by default ``results`` beside this file, is written anew:
truths.json and, for each pair, trace.json.gz and what of manifest.json a prediction or a reader needs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

_KEPT = ("schema", "status", "kinetoscope", "versions", "device", "steps", "calibration", "profiler")
_KEPT_OF_CPU = ("model", "cores", "usable_cores", "load_average")
_TRACE_NAME = re.compile(rb'"traceName":\s*"[^"]*"')


def small_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a manifest."""
    kept = {name: manifest.get(name) for name in _KEPT}
    kept["versions"] = {name: of for name, of in (kept["versions"] or {}).items() if name != "system"}
    kept["cpu"] = {name: (manifest.get("cpu") or {}).get(name) for name in _KEPT_OF_CPU}
    # which device of the machine the current one is
    shown = (manifest.get("environment") or {}).get("CUDA_VISIBLE_DEVICES")
    kept["environment"] = {} if shown is None else {"CUDA_VISIBLE_DEVICES": shown}
    return {**kept, "files": {"trace": "trace.json.gz"}}


def keep(capture: Path, into: Path) -> None:
    """Keep one capture."""
    into.mkdir(parents=True)
    manifest = json.loads((capture / "manifest.json").read_text())
    (into / "manifest.json").write_text(json.dumps(small_manifest(manifest)) + "\n")
    content = gzip.decompress((capture / "trace.json.gz").read_bytes())
    content = _TRACE_NAME.sub(b'"traceName": "trace.json"', content)
    # no time and no name in the file: the same capture is the same bytes
    (into / "trace.json.gz").write_bytes(gzip.compress(content, 9, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("kept", type=Path, nargs="?", default=Path(__file__).resolve().parent / "results")
    options = parser.parse_args()
    shutil.rmtree(options.kept, ignore_errors=True)
    for manifest in sorted(options.results.glob("*/manifest.json")):
        keep(manifest.parent, options.kept / manifest.parent.name)
    shutil.copyfile(options.results / "truths.json", options.kept / "truths.json")


if __name__ == "__main__":
    main()
