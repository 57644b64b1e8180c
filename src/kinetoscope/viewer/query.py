"""SQL over one trace: DuckDB in memory, with no way to files, to the network or to its own settings.

DuckDB bounds the memory of its tables and hashes, but not that of the texts it makes. So it runs in a
process of its own (`kinetoscope.viewer.query_process`), which imports this and little else.
"""

from __future__ import annotations

import math
import time
from threading import Lock, Thread, Timer
from typing import TYPE_CHECKING, Any

import numpy as np

from kinetoscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: rows of an answer
LIMIT = 10_000
#: and their size, so that the page can hold them
_ANSWER_CHARS = 32 << 20
_AT_ONCE = 64
SECONDS = 30.0
_MEMORY = "1GB"
#: an integer that is not there
_NONE = "(-9223372036854775807 - 1)"
#: what a query may take beyond the tables
ROOM_BYTES = 1536 << 20
TOO_LARGE = (
    f"this needs more memory than a query may take ({ROOM_BYTES / 2**30:.1f} GB): "
    "ask for fewer rows or shorter texts"
)

#: what can be asked: table, column, meaning
TABLES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "slices",
        (
            ("row", "number of the slice"),
            ("name", "as the file writes it"),
            ("cat", "as the file writes it"),
            ("category", "kernel, cpu_op, runtime, ..."),
            ("start_ns", "from the trace's start"),
            ("dur_ns", "its length"),
            ("end_ns", "start_ns + dur_ns"),
            ("track", "see tracks"),
            ("depth", "nesting, 0 outermost"),
            ("parent", "row of the slice around it"),
            ("launch", "row of the call that launched it"),
            ("correlation", "same for a call and its device work"),
            ("external_id", "same for an operator and its calls"),
            ("sequence", "autograd's sequence number"),
            ("device", "its number; null on the CPU"),
            ("stream", "its number; null on the CPU"),
            ("invalid_time", "kept, never measured"),
        ),
    ),
    (
        "flows",
        (
            ("id", "same for all entries of an arrow"),
            ("time_ns", "from the trace's start"),
            ("phase", "s, t or f"),
            ("cat", "ac2g: launch to device; fwdbwd: forward to backward"),
            ("track", "see tracks"),
        ),
    ),
    (
        "tracks",
        (
            ("track", "its number"),
            ("pid", "process; of a GPU its number"),
            ("tid", "thread; of a GPU the stream"),
            ("process_name", "as the file names it"),
            ("thread_name", "as the file names it"),
            ("labels", "such as GPU 0"),
        ),
    ),
)


class Database:
    """The tables of one trace. Queries can run at the same time, each is stopped by itself."""

    def __init__(self, columns: Iterable[tuple[str, str, Any]]) -> None:
        """``columns`` as `kinetoscope.viewer.query_tables.columns` gives them, in that order."""
        import duckdb

        self._duckdb = duckdb
        self._lock = Lock()
        self._running: dict[str, Any] = {}
        self._connection = duckdb.connect(":memory:", config={"memory_limit": _MEMORY, "threads": "2"})
        _fill(self._connection, columns)
        for setting in (
            "SET temp_directory = ''",
            "SET enable_external_access = false",
            "SET python_enable_replacements = false",
            "SET lock_configuration = true",
        ):
            self._connection.execute(setting)

    def run(self, sql: str, seconds: float = SECONDS, name: str = "") -> dict[str, Any]:
        """Columns and rows of one SELECT; `stop` ends it by its ``name``.

        Raises:
            UsageError: it is no SELECT, DuckDB refuses it, it or its answer is too large, or it was
                stopped, by `stop` or because it took too long.
        """
        duckdb = self._duckdb
        with self._lock:
            cursor = self._connection.cursor()
            self._running[name] = cursor
        began = time.monotonic()
        timer = Timer(seconds, cursor.interrupt)
        timer.daemon = True
        try:
            start(timer)
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
        except (duckdb.OutOfMemoryException, MemoryError):
            raise UsageError(TOO_LARGE) from None
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


def _fill(connection: Any, columns: Iterable[tuple[str, str, Any]]) -> None:
    """Make the tables; one at a time is in memory twice."""
    tables: dict[str, dict[str, Any]] = {}
    for table, name, values in columns:
        if tables and table not in tables:
            _create(connection, *tables.popitem())
        tables.setdefault(table, {})[name] = values
    _create(connection, *tables.popitem())
    connection.execute(
        "CREATE VIEW slices AS SELECT row, n.text AS name, k.text AS cat, g.text AS category, "
        "start_ns, dur_ns, start_ns + dur_ns AS end_ns, track, depth, parent, launch, correlation, "
        "external_id, sequence, device, stream, invalid_time FROM slice_rows s "
        "JOIN name_texts n ON n.number = s.name JOIN cat_texts k ON k.number = s.cat "
        "JOIN category_texts g ON g.number = s.category"
    )
    connection.execute(
        "CREATE VIEW flows AS SELECT id, time_ns, phase, k.text AS cat, track "
        "FROM flow_rows f JOIN cat_texts k ON k.number = f.cat"
    )
    connection.execute("CREATE VIEW tracks AS SELECT * FROM track_rows")


def _create(connection: Any, table: str, columns: Mapping[str, Any]) -> None:
    given = {
        name: np.array(values, object) if isinstance(values, list) else values
        for name, values in columns.items()
    }
    # said of what type they are: a column without any text tells nothing of that
    select = {name: f"{name}::VARCHAR AS {name}" for name in given if isinstance(columns[name], list)}
    select |= _SELECTED.get(table, {})
    if table.endswith("_texts"):
        given["number"] = np.arange(len(given["text"]), dtype=np.int64)
    connection.register("given", given)
    connection.execute(
        f"CREATE TABLE {table} AS SELECT {', '.join(select.get(name, name) for name in given)} FROM given"
    )
    connection.unregister("given")


def _nullable(*names: str, none: str) -> dict[str, str]:
    return {name: f"nullif({name}, {none}) AS {name}" for name in names}


#: how a column is taken over, where not as it is
_SELECTED: Mapping[str, Mapping[str, str]] = {
    "slice_rows": {
        **_nullable("parent", "launch", none="-1"),
        **_nullable("correlation", "external_id", "sequence", "device", "stream", none=_NONE),
    },
    "flow_rows": {"phase": "chr(phase::INTEGER) AS phase"},
}


def start(thread: Thread) -> None:
    """Start a thread, though the memory for it may come a moment later.

    DuckDB gives back what a query took while its answer is already on its way.

    Raises:
        UsageError: for a second there was none.
    """
    until = time.monotonic() + 1
    while True:
        try:
            return thread.start()
        except RuntimeError:
            if time.monotonic() > until:
                raise UsageError(TOO_LARGE) from None
            time.sleep(0.02)
