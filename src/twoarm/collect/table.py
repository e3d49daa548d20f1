"""Tables: CSV, JSONL or Parquet with a column per field, for every other harness."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from twoarm.collect.failure import agent, infra
from twoarm.collect.folder import LONGEST_LINE, Folder, SourceError, decoded
from twoarm.collect.format import Attempt, Failed, Settings
from twoarm.collect.moment import Moment, between, seconds
from twoarm.collect.parquet import read_rows
from twoarm.collect.tokens import Spend, outside_cache
from twoarm.errors import Position, Problem, UsageError
from twoarm.escape import named, shortened, visible
from twoarm.options import either
from twoarm.record import LARGEST

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")

_TEXTS = ("task_id", "run_id", "model", "agent", "session_id", "acceptance_command")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "step_count",
    "tool_call_count",
    "acceptance_cmd_count",
)
_NUMBERS = ("duration_seconds", "total_cost_usd")
_CODES = ("agent_exit_code", "acceptance_exit_code", "setup_exit_code", "arm_setup_exit_code")
_FLAGS = ("success", "acceptance_first_pass")
_TIMES = ("started_at_utc", "ended_at_utc")

# What may be mapped to a column: fields of a record, and reasoning tokens, which are output.
FIELDS = (
    *_TEXTS,
    "repeat",
    *_FLAGS,
    *_NUMBERS,
    *_COUNTS,
    *_CODES,
    *_TIMES,
    "failure",
    "failure_reason",
)

_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no")

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Table:
    """Rows of a table, one run each."""

    name: ClassVar[str] = "table"
    one_run_per_folder: ClassVar[bool] = False

    def recognizes(self, folder: Folder) -> bool:
        """Never: a table may be of anything, so it is read only when asked for by name."""
        return False

    def claims(self, folder: Folder) -> Sequence[str]:
        """Every table of the folder."""
        return sorted(name for name in folder.names if name.lower().endswith(SUFFIXES))

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The rows of one table."""
        for field in settings.columns:
            if field not in FIELDS:
                listing = ", ".join(FIELDS)
                given = either(flag="--map", argument="`columns=`")
                raise UsageError(f"{given}: no such field {named(field)}; fields are {listing}")
        for number, row in _rows(folder, name):
            where = folder.where(name, number)
            if isinstance(row, Problem):
                yield row
                continue
            try:
                yield _attempt(row, where, settings)
            except SourceError as error:
                yield error.problem


def _rows(folder: Folder, name: str) -> Iterator[tuple[int, Mapping[str, Any] | Problem]]:
    low = name.lower()
    if low.endswith(".parquet"):
        yield from read_rows(folder, name)
    elif low.endswith(".jsonl"):
        for number, line in folder.lines(name):
            if line.strip():
                try:
                    yield number, decoded(line, _OBJECT, folder.where(name, number))
                except SourceError as error:
                    yield number, error.problem
    else:
        yield from _delimited(folder, name, "\t" if low.endswith(".tsv") else ",")


def _delimited(
    folder: Folder, name: str, delimiter: str
) -> Iterator[tuple[int, Mapping[str, Any] | Problem]]:
    import csv

    csv.field_size_limit(LONGEST_LINE)
    lines = _texts(folder, name)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        head = next(reader, None)
        if not head:
            raise folder.refuse("empty; expected a row of column names", name)
        if len(set(head)) < len(head):
            twice = next(column for column, count in Counter(head).items() if count > 1)
            raise folder.refuse(f"two columns named {named(twice)}", name)
        for cells in reader:
            number = reader.line_num
            if not cells:
                continue
            if len(cells) != len(head):
                message = f"{len(cells)} cells in a table of {len(head)} columns"
                yield number, folder.where(name, number).problem(message)
                continue
            yield (
                number,
                {
                    column: cell if cell != "" else None
                    for column, cell in zip(head, cells, strict=True)
                },
            )
    except csv.Error as error:
        where = folder.where(name, reader.line_num)
        raise SourceError(where, visible(str(error))) from error


def _texts(folder: Folder, name: str) -> Iterator[str]:
    for number, line in folder.lines(name):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where = folder.where(name, number)
            raise SourceError(where, "not UTF-8; save the table as UTF-8") from error
        yield text + "\n"


class _Row:
    """The fields of one row, each as its type."""

    def __init__(self, row: Mapping[str, Any], where: Position, columns: Mapping[str, str]) -> None:
        self._row = row
        self._where = where
        self._columns = columns

    def value(self, field: str) -> Any:
        """What stands in the column of a field; None if there is no such column."""
        column = self._columns.get(field)
        if column is None:
            return self._row.get(field)
        if column in self._row:
            return self._row[column]
        found: Any = self._row
        for part in column.split("."):
            if not isinstance(found, Mapping) or part not in found:
                raise SourceError(self._where, f"no column {named(column)} for {field}")
            found = found[part]
        return found

    def refuse(self, field: str, expected: str, value: object) -> SourceError:
        """The error that names a field and its column."""
        column = self._columns.get(field, field)
        message = f"expected {expected}, got {named(shortened(str(value), 60))}"
        return SourceError(self._where, message, column)

    def text(self, field: str) -> str | None:
        """Text; a number is text too."""
        value = self.value(field)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.refuse(field, "text", value)

    def number(self, field: str) -> float | None:
        """A number of 0 or more."""
        return self._number(field, 0, "a number")

    def count(self, field: str) -> int | None:
        """A whole number of 0 or more."""
        return self._whole(field, 0, "a whole number")

    def code(self, field: str) -> int | None:
        """An exit code, which may be negative."""
        return self._whole(field, -LARGEST, "an exit code")

    def _whole(self, field: str, least: int, kind: str) -> int | None:
        found = self._number(field, least, kind)
        if found is not None and found != int(found):
            raise self.refuse(field, kind, self.value(field))
        return None if found is None else int(found)

    def _number(self, field: str, least: int, kind: str) -> float | None:
        found = value = self.value(field)
        if isinstance(value, str):
            try:
                found = float(value)
            except ValueError:
                raise self.refuse(field, kind, value) from None
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.refuse(field, kind, value)
        if not least <= found <= LARGEST:
            raise self.refuse(field, f"{kind} from {least} to {LARGEST}", value)
        return found

    def flag(self, field: str) -> bool | None:
        """True or false, 1 or 0, yes or no."""
        value = self.value(field)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower().removesuffix(".0")
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise self.refuse(field, "true or false, 1 or 0, yes or no", value)

    def moment(self, field: str) -> float | None:
        """A time as ISO text, or as seconds since 1970."""
        from datetime import datetime

        value = self.value(field)
        if value is None or isinstance(value, datetime):
            return seconds(value)
        try:
            if isinstance(value, str):
                return seconds(datetime.fromisoformat(value))
            return msgspec.convert(value, Moment)
        except (ValueError, OverflowError):
            raise self.refuse(field, "a time such as 2026-11-15T06:21:16Z", value) from None


def _attempt(cells: Mapping[str, Any], where: Position, settings: Settings) -> Attempt:
    row = _Row(cells, where, settings.columns)
    task = row.text("task_id")
    if not task:
        raise SourceError(where, _unmapped("task_id", "task_id"))
    success = row.flag("success")
    failure = _failure(row)
    if success is None and failure is None:
        raise SourceError(where, _unmapped("success", "success"))
    started, ended = row.moment("started_at_utc"), row.moment("ended_at_utc")
    duration = row.number("duration_seconds")
    if duration is None:
        duration = between(started, ended)
    if duration is None:
        raise SourceError(where, _unmapped("duration", "duration_seconds"))
    repeat = row.count("repeat")
    if repeat == 0:
        raise row.refuse("repeat", "a number from 1", 0)
    steps, tools = row.count("step_count"), row.count("tool_call_count")
    model = row.text("model")
    spend = _spend(row, where, model, settings)
    return Attempt(
        where=where,
        task_id=task,
        repeat=repeat,
        success=bool(success),
        failure=failure,
        duration_seconds=duration,
        started=started,
        ended=ended,
        cost_usd=row.number("total_cost_usd"),
        spends=None if spend is None else (spend,),
        took_steps=bool(steps or tools),
        document=cells,
        configuration=(("model", model),),
        scope="",
        caveats=(),
        step_count=steps,
        tool_call_count=tools,
        acceptance_cmd_count=row.count("acceptance_cmd_count"),
        acceptance_first_pass=row.flag("acceptance_first_pass"),
        agent_exit_code=row.code("agent_exit_code"),
        acceptance_exit_code=row.code("acceptance_exit_code"),
        setup_exit_code=row.code("setup_exit_code"),
        arm_setup_exit_code=row.code("arm_setup_exit_code"),
        run_id=row.text("run_id"),
        model=model,
        agent=row.text("agent"),
        session_id=row.text("session_id"),
        acceptance_command=row.text("acceptance_command"),
    )


def _unmapped(what: str, field: str) -> str:
    given = either(flag=f"--map {field}=COLUMN", argument=f'`columns={{"{field}": COLUMN}}`')
    return f"no {what}; name its column with {given}"


def _failure(row: _Row) -> Failed | None:
    said = row.text("failure")
    reason = row.text("failure_reason") or ""
    if said is None or said.lower() in ("", "none", "null"):
        return None
    if said == "agent":
        return agent(reason)
    if said == "infra":
        return infra(reason)
    raise row.refuse("failure", "agent, infra or nothing", said)


def _spend(row: _Row, where: Position, model: str | None, settings: Settings) -> Spend | None:
    tokens, output = row.count("input_tokens"), row.count("output_tokens")
    read, written = row.count("cache_read_tokens"), row.count("cache_write_tokens")
    reasoning = row.count("reasoning_tokens")
    if (tokens, output, read, written) == (None, None, None, None):
        return None
    if tokens is not None and settings.input_includes_cache:
        tokens = outside_cache(tokens, read or 0, written or 0, where=where)
    if output is not None and reasoning is not None:
        output += reasoning
    return Spend(model=model, input=tokens, output=output, cache_read=read, cache_write=written)
