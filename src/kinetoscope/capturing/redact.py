"""Leaving source code out of torch's structured compile log (``--no-source``).

What is kept is listed, not what is dropped: a kind of record that a newer torch adds is then without its
payload until someone has looked at it. Paths, line numbers and function names stay, since breaks and
recompilations are told by them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

__all__ = ["redact_record"]

# Payloads that hold no code: numbers, keys, phase names.
_KEEP_PAYLOAD: Final = frozenset({"chromium_event", "compilation_metrics", "bwd_compilation_metrics"})
# Artifacts that are kept after the code in them is taken out.
_STRIP_ARTIFACT: Final = frozenset({"dynamo_graph_break_reason", "recompile_reasons"})
_KEEP_ARTIFACT: Final = frozenset({"torch_version", "inductor_provenance_tracking_node_mappings"})
_CACHE_ARTIFACT: Final = re.compile(r"(fx_graph_cache|aotautograd_cache|fx_graph_bypass)_?\w*$")
_CACHE_KEEP: Final = ("key", "cache_state", "cache_event_time", "time_saved_ns", "cache_bypass_reason")
# "components" of a cache key hold the graph's code, the others lines of the user's.
_CODE_KEYS: Final = frozenset({"components", "stack_trace", "graph_code", "inductor_provenance"})
_FRAME_LINE: Final = re.compile(r'^\s*File "')
# A guard is followed by the source line that made it: "...  # y = x * 2  # f.py:3 in f".
_GUARD_COMMENT: Final = re.compile(r"\s+#\s.*$", re.MULTILINE)


def redact_record(metadata: dict[str, Any], payload: str | None) -> tuple[dict[str, Any], str | None]:
    """A log record without code in it: new metadata, new payload."""
    metadata = {
        key: _cleaned(value) if key in _KEEP_PAYLOAD else _without_lines(value)
        for key, value in metadata.items()
    }
    if payload is None:
        return metadata, None
    if _KEEP_PAYLOAD & metadata.keys():
        return metadata, _strip_metrics(payload)
    artifact = metadata.get("artifact")
    name = artifact.get("name", "") if isinstance(artifact, dict) else ""
    if name in _KEEP_ARTIFACT:
        return metadata, payload
    if name in _STRIP_ARTIFACT:
        return metadata, _strip_text(payload)
    if _CACHE_ARTIFACT.match(name):
        return metadata, _strip_cache(payload)
    metadata.pop("has_payload", None)
    metadata["redacted"] = True
    return metadata, None


def _without_lines(value: Any) -> Any:
    """Stack entries hold the text of their line as ``loc`` or ``line_text``."""
    if isinstance(value, dict):
        return {key: _without_lines(item) for key, item in value.items() if key not in ("loc", "line_text")}
    if isinstance(value, list):
        return [_without_lines(item) for item in value]
    return value


def _strip_metrics(payload: str) -> str:
    try:
        values = json.loads(payload)
    except ValueError:
        return "{}"
    return json.dumps(_cleaned(values), indent=0)


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items() if key not in _CODE_KEYS}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return _strip_text(value) if isinstance(value, str) else value


def _strip_text(text: str) -> str:
    """Drop the code lines under ``File "...", line N`` and the source comments behind guards."""
    kept: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        kept.append(line)
        if _FRAME_LINE.match(line):
            indent = len(line) - len(line.lstrip())
            for code in lines:
                deeper = len(code) - len(code.lstrip()) > indent
                if _FRAME_LINE.match(code):
                    kept.append(code)
                elif not deeper:
                    kept.append(code)
                    break
    return _GUARD_COMMENT.sub("", "\n".join(kept))


def _strip_cache(payload: str) -> str | None:
    try:
        values = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    return json.dumps({key: values[key] for key in _CACHE_KEEP if key in values})
