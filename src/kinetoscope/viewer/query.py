"""SQL over one trace: DuckDB in memory, with no way to files, to the network or to its own settings."""

from __future__ import annotations

import math
import time
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from kinetoscope.errors import UsageError
from kinetoscope.trace import Category, Flag, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

#: rows of an answer
LIMIT = 10_000
#: and their size, so that the page can hold them
_ANSWER_CHARS = 32 << 20
_AT_ONCE = 64
_SECONDS = 30.0
_MEMORY = "1GB"
_NONE = "(-9223372036854775807 - 1)"

#: what can be asked: table, column, meaning
TABLES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "slices",
        (
            ("row", "number of the slice"),
            ("name", ""),
            ("cat", "as the file writes it"),
            ("category", "kernel, cpu_op, runtime, ..."),
            ("start_ns", "from the trace's start"),
            ("dur_ns", ""),
            ("end_ns", ""),
            ("track", "see tracks"),
            ("depth", "nesting, 0 outermost"),
            ("parent", "row of the slice around it"),
            ("launch", "row of the call that launched it"),
            ("correlation", ""),
            ("external_id", ""),
            ("sequence", "autograd's sequence number"),
            ("device", ""),
            ("stream", ""),
            ("invalid_time", "kept, never measured"),
        ),
    ),
    (
        "flows",
        (
            ("id", ""),
            ("time_ns", ""),
            ("phase", "s, t or f"),
            ("cat", ""),
            ("track", ""),
        ),
    ),
    (
        "tracks",
        (
            ("track", ""),
            ("pid", ""),
            ("tid", ""),
            ("process_name", ""),
            ("thread_name", ""),
            ("labels", ""),
        ),
    ),
)


class Database:
    """The tables of one trace. Queries can run at the same time, each is stopped by itself."""

    def __init__(self, trace: Trace, launch_of_row: Any) -> None:
        self._lock = Lock()
        self._running: dict[str, Any] = {}
        self._connection = duckdb.connect(":memory:", config={"memory_limit": _MEMORY, "threads": "2"})
        _fill(self._connection, trace, launch_of_row)
        for setting in (
            "SET temp_directory = ''",
            "SET enable_external_access = false",
            "SET python_enable_replacements = false",
            "SET lock_configuration = true",
        ):
            self._connection.execute(setting)

    def run(self, sql: str, seconds: float = _SECONDS, name: str = "") -> dict[str, Any]:
        """Columns and rows of one SELECT; `stop` ends it by its ``name``.

        Raises:
            UsageError: it is no SELECT, DuckDB refuses it, its answer is too large, or it was stopped, by
                `stop` or because it took too long.
        """
        with self._lock:
            cursor = self._connection.cursor()
            self._running[name] = cursor
        began = time.monotonic()
        timer = Timer(seconds, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            statements = duckdb.extract_statements(sql)
            if len(statements) != 1:
                raise UsageError("one statement at a time" if statements else "there is no statement")
            # EXPLAIN ANALYZE would run whatever stands behind it
            if statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError("only SELECT: nothing here can be changed")
            answer = cursor.execute(statements[0])
            columns = [column[0] for column in answer.description or ()]
            types = [str(column[1]) for column in answer.description or ()]
            rows, more = _fetched(answer)
        except duckdb.InterruptException:
            if time.monotonic() - began < seconds:
                raise UsageError("stopped") from None
            raise UsageError(f"stopped after {seconds:.0f} s: ask for less, or add a LIMIT") from None
        except duckdb.Error as error:
            raise UsageError(str(error)) from None
        finally:
            timer.cancel()
            with self._lock:
                if self._running.get(name) is cursor:
                    del self._running[name]
            cursor.close()
        return {"columns": columns, "types": types, "rows": rows, "more": more}

    def stop(self, name: str) -> None:
        """End the query of this name, if it is running."""
        with self._lock:
            cursor = self._running.get(name)
            if cursor is not None:
                cursor.interrupt()


def _fetched(answer: Any) -> tuple[list[list[Any]], bool]:
    """The first `LIMIT` rows, and whether there are more."""
    rows: list[list[Any]] = []
    size = 0
    while len(rows) <= LIMIT and (some := answer.fetchmany(_AT_ONCE)):
        for row in some:
            rows.append([_plain(value) for value in row])
            size += sum(len(value) for value in rows[-1] if isinstance(value, str))
        if size > _ANSWER_CHARS:
            raise UsageError(
                f"the answer is larger than {_ANSWER_CHARS >> 20} MB: ask for fewer rows or shorter texts"
            )
    return rows[:LIMIT], len(rows) > LIMIT


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)


def _fill(connection: Any, trace: Trace, launch_of_row: Any) -> None:
    c = trace.columns

    def table(name: str, columns: Mapping[str, Any], select: str) -> None:
        connection.register("given", dict(columns))
        connection.execute(f"CREATE TABLE {name} AS SELECT {select} FROM given")
        connection.unregister("given")

    def texts(name: str, values: list[str]) -> None:
        # a row that no name has, so that the column is text even if there are no names
        numbers = np.arange(len(values) + 1, dtype=np.int64)
        table(name, {"number": numbers, "text": np.array([*values, ""], object)}, "number, text")

    texts("name_texts", list(trace.names))
    texts("cat_texts", list(trace.cats))
    texts("category_texts", [member.name.lower() for member in Category])
    numbers = {
        name: getattr(c, name) for name in ("correlation", "external_id", "sequence", "device", "stream")
    }
    table(
        "slice_rows",
        {
            "row": np.arange(len(c), dtype=np.int64),
            "name": c.name.astype(np.int64),
            "cat": c.cat.astype(np.int64),
            "category": c.category.astype(np.int64),
            "start_ns": c.start_ns,
            "dur_ns": c.dur_ns,
            "track": c.track.astype(np.int64),
            "depth": c.depth.astype(np.int64),
            "parent": c.parent.astype(np.int64),
            "launch": np.asarray(launch_of_row, np.int64),
            "invalid_time": (c.flags & Flag.INVALID_TIME) != 0,
            **numbers,
        },
        "row, name, cat, category, start_ns, dur_ns, track, depth, nullif(parent, -1) AS parent, "
        "nullif(launch, -1) AS launch, invalid_time, "
        + ", ".join(f"nullif({name}, {_NONE}) AS {name}" for name in numbers),
    )
    connection.execute(
        "CREATE VIEW slices AS SELECT row, n.text AS name, k.text AS cat, g.text AS category, "
        "start_ns, dur_ns, start_ns + dur_ns AS end_ns, track, depth, parent, launch, correlation, "
        "external_id, sequence, device, stream, invalid_time FROM slice_rows s "
        "JOIN name_texts n ON n.number = s.name JOIN cat_texts k ON k.number = s.cat "
        "JOIN category_texts g ON g.number = s.category"
    )
    flows = trace.flow_columns
    table(
        "flow_rows",
        {
            "id": flows.id,
            "time_ns": flows.time_ns,
            "phase": flows.phase.astype(np.int64),
            "cat": flows.cat.astype(np.int64),
            "track": flows.track.astype(np.int64),
        },
        "id, time_ns, chr(phase::INTEGER) AS phase, cat, track",
    )
    connection.execute(
        "CREATE VIEW flows AS SELECT id, time_ns, phase, k.text AS cat, track "
        "FROM flow_rows f JOIN cat_texts k ON k.number = f.cat"
    )
    connection.execute(
        "CREATE TABLE tracks (track BIGINT, pid VARCHAR, tid VARCHAR, process_name VARCHAR, "
        "thread_name VARCHAR, labels VARCHAR)"
    )
    rows = [
        (number, str(track.pid), str(track.tid), track.process_name, track.thread_name, track.labels)
        for number, track in enumerate(trace.track_list)
    ]
    if rows:
        connection.executemany("INSERT INTO tracks VALUES (?, ?, ?, ?, ?, ?)", rows)
