"""Tables: CSV, JSONL or Parquet with a column per field, for every other harness."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem, UsageError
from twoarm.options import either, option
from twoarm.programs.failure import agent, infra
from twoarm.programs.folder import Folder, SourceError
from twoarm.programs.format import Attempt, Condition, Failed, Format, LeftOut, Settings
from twoarm.programs.moment import Moment, between, seconds
from twoarm.programs.table.rows import ARRAY, SUFFIXES, Row, of_one_shape, table_rows
from twoarm.programs.tokens import Spend, outside_cache
from twoarm.programs.value import NOTHING, as_text, at_path
from twoarm.runs.record import LARGEST
from twoarm.text.escape import named, shortened
from twoarm.text.sentence import listed

_TEXTS = ("task_id", "family", "run_id", "model", "agent", "session_id", "acceptance_command")
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
_NUMBERS = ("duration_seconds", "total_cost_usd", "score")
# An object of checks, or what the columns of checks begin with.
_CHECKS, CHECK = "checks", "checks."
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
    "task_tags",
)

_TRUE = ("true", "1", "yes")
_FALSE = ("false", "0", "no")

# What every run needs; one column, or all of others, will do.
_NEEDED = {
    "task_id": (("task_id",),),
    "success": (("success",), ("failure",)),
    "duration_seconds": (("duration_seconds",), ("started_at_utc", "ended_at_utc")),
}
# What stands between the columns of a task, in the mapping and in its name.
_AND, _BETWEEN = "+", "/"
_LISTED_COLUMNS = 20


class TableFormat:
    """Rows of a table, one run each."""

    name: ClassVar[str] = "table"
    one_run_per_folder: ClassVar[bool] = False

    def recognizes(self, folder: Folder) -> bool:
        """Never: a table may be of anything, so it is read only when asked for by name."""
        return False

    def __init__(self) -> None:
        # The columns that each task's name was made of.
        self._tasks: dict[str, tuple[str, ...]] = {}

    def claims(self, folder: Folder) -> Sequence[str]:
        """Every table of the folder; a JSON document only if it was given by its own name."""
        return sorted(
            name
            for name, entry in folder.names.items()
            if name.lower().endswith(SUFFIXES) or (entry is None and name.lower().endswith(ARRAY))
        )

    def read(
        self, folder: Folder, name: str, settings: Settings
    ) -> Iterator[Attempt | Problem | LeftOut]:
        """The rows of one table."""
        for field in settings.columns:
            if field not in FIELDS and not _is_check(field):
                listing = ", ".join((*FIELDS, f"{CHECK}NAME"))
                given = either(flag="--map", argument="`columns=`")
                raise UsageError(f"{given}: no such field {named(field)}; fields are {listing}")
        checked: Set[str] = frozenset()
        for where, cells in table_rows(folder, name):
            if isinstance(cells, Problem):
                yield cells
                continue
            try:
                if cells.keys() != checked:
                    # What all rows lack is said once, of the table.
                    at = folder.where(name) if of_one_shape(name) else where
                    _check_columns(cells, at, settings)
                    checked = cells.keys()
            except SourceError as error:
                if of_one_shape(name):
                    raise
                yield error.problem
                continue
            unwanted = next((term for term in settings.where if not _holds(term, cells)), None)
            if unwanted is not None:
                yield LeftOut(noun="row", why=f", not {shortened(str(unwanted), 60)}")
                continue
            try:
                row = _Row(cells, where, settings.columns)
                yield _attempt(row, self._task(row), settings)
            except SourceError as error:
                yield error.problem

    def _task(self, row: "_Row") -> str:
        parts = row.task_parts()
        name = _BETWEEN.join(parts)
        known = self._tasks.setdefault(name, parts) if len(parts) > 1 else parts
        if known != parts:
            both = " and ".join(" + ".join(map(named, made)) for made in (known, parts))
            message = f"two tasks would both be {named(name)}: {both}; rename one"
            raise SourceError(row.where, message)
        return name


record: type[Format] = TableFormat


def _check_columns(cells: Row, where: Position, settings: Settings) -> None:
    """Refuse a mapping to columns that are not there, and a table that lacks what a run needs."""
    columns = f"columns found: {listed(list(cells), _LISTED_COLUMNS)}"

    def check(column: str, of: str) -> None:
        if at_path(cells, column) is NOTHING:
            message = f"no column {named(column)} for {of}"
            raise SourceError(where, f"{message}; {columns}", mistake=message)

    for field, column in settings.columns.items():
        for part in _columns_of(field, column, cells):
            check(part, field)
    for condition in settings.where:
        check(condition.column, option("where"))
    known = {*settings.columns, *cells}
    for field, choices in _NEEDED.items():
        if not any(known.issuperset(choice) for choice in choices):
            given = either(
                flag=f"--map {field}=COLUMN", argument=f'`columns={{"{field}": COLUMN}}`'
            )
            message = f"no column for {field}; name it with {given}"
            raise SourceError(where, f"{message}; {columns}", mistake=message)


def _columns_of(field: str, column: str, cells: Row) -> list[str]:
    """The columns that a field is made of: several for a task, one for anything else."""
    if field == "task_id" and _AND in column and at_path(cells, column) is NOTHING:
        return column.split(_AND)
    return [column]


def _is_check(column: str) -> bool:
    return column.startswith(CHECK) and column != CHECK


def _holds(condition: Condition, cells: Row) -> bool:
    value = at_path(cells, condition.column)
    text = "" if value is None else as_text(value)
    return (text == condition.value) == condition.equal


class _Row:
    """The fields of one row, each as its type."""

    def __init__(self, row: Row, where: Position, columns: Mapping[str, str]) -> None:
        self.row = row
        self.where = where
        self._columns = columns

    def value(self, field: str) -> Any:
        """What stands in the column of a field; None if there is no such column."""
        column = self._columns.get(field)
        if column is None:
            return self.row.get(field)
        return at_path(self.row, column)

    def task_parts(self) -> tuple[str, ...]:
        """The text of each column that the task is made of."""
        columns = _columns_of("task_id", self._columns.get("task_id", "task_id"), self.row)
        parts = [self._text(at_path(self.row, column), "task_id") for column in columns]
        for column, part in zip(columns, parts, strict=True):
            if not part:
                raise SourceError(self.where, f"no task_id; column {named(column)} is empty")
        return tuple(part for part in parts if part)

    def column(self, field: str) -> str:
        """The name of the column of a field, to be shown."""
        return named(self._columns.get(field, field))

    def refuse(self, field: str, expected: str, value: object) -> SourceError:
        """The error that names a field and its column."""
        column = self._columns.get(field, field)
        message = f"expected {expected}, got {named(shortened(str(value), 60))}"
        return SourceError(self.where, message, column, f"expected {expected}")

    def text(self, field: str) -> str | None:
        """Text; a number is text too."""
        return self._text(self.value(field), field)

    def _text(self, value: Any, field: str) -> str | None:
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
        number = self._number(field, least, kind)
        if number is not None and number != int(number):
            raise self.refuse(field, kind, self.value(field))
        return None if number is None else int(number)

    def _number(self, field: str, least: int, kind: str, most: int = LARGEST) -> float | None:
        number = value = self.value(field)
        if isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                raise self.refuse(field, kind, value) from None
        if number is None:
            return None
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise self.refuse(field, kind, value)
        if not least <= number <= most:
            raise self.refuse(field, f"{kind} from {least} to {most}", value)
        return number

    def score(self) -> float | None:
        """A number from 0 to 1."""
        return self._number("score", 0, "a score", 1)

    def checks(self) -> dict[str, bool | None] | None:
        """What columns and an object of that name say of each check; None if they say nothing."""
        nested = self.row.get(_CHECKS)
        cells = (
            {f"{CHECK}{name}": nested[name] for name in nested if name}
            if isinstance(nested, Mapping)
            else {}
        )
        cells |= {column: self.row[column] for column in self.row if _is_check(column)}
        cells |= {field: self.value(field) for field in self._columns if _is_check(field)}
        checks = {field.removeprefix(CHECK): self._flag(cells[field], field) for field in cells}
        return checks if any(passed is not None for passed in checks.values()) else None

    def tags(self) -> tuple[str, ...] | None:
        """The tags of the task: a list, in JSON where cells are text, or text with commas."""
        value = self.value("task_tags")
        words = [] if value is None else value
        if isinstance(value, str):
            words = _json_list(value) if value.lstrip().startswith("[") else value.split(",")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise self.refuse("task_tags", "tags with commas between them, or a list", value)
        return tuple(filter(None, map(str.strip, words))) or None

    def flag(self, field: str) -> bool | None:
        """True or false, 1 or 0, yes or no."""
        return self._flag(self.value(field), field)

    def _flag(self, value: Any, field: str) -> bool | None:
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


def _json_list(text: str) -> object:
    """The list that a text is in JSON; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _attempt(row: _Row, task: str, settings: Settings) -> Attempt:
    where = row.where
    success = row.flag("success")
    failure = _failure(row)
    if success is None and failure is None:
        raise SourceError(where, f"no success; column {row.column('success')} is empty")
    started, ended = row.moment("started_at_utc"), row.moment("ended_at_utc")
    duration = row.number("duration_seconds")
    if duration is None:
        duration = between(started, ended)
    if duration is None:
        raise SourceError(where, f"no duration; column {row.column('duration_seconds')} is empty")
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
        document=row.row,
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
        score=row.score(),
        checks=row.checks(),
        task_tags=row.tags(),
        family=row.text("family") or None,
        run_id=row.text("run_id"),
        model=model,
        agent=row.text("agent"),
        session_id=row.text("session_id"),
        acceptance_command=row.text("acceptance_command"),
    )


def _failure(row: _Row) -> Failed | None:
    failure = row.text("failure")
    reason = row.text("failure_reason") or ""
    if failure is None or failure.lower() in ("", "none", "null"):
        return None
    if failure == "agent":
        return agent(reason)
    if failure == "infra":
        return infra(reason)
    raise row.refuse("failure", "agent, infra or nothing", failure)


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
