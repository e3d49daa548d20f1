"""Files that are not run files: what they are, and the command that makes run records of them."""

import csv
import io
import json
import os
import re
import shlex
from typing import Any, NamedTuple

from twoarm.options import either
from twoarm.runs.study import COLLECTED, SCHEDULE
from twoarm.text.escape import visible

_PARQUET = b"PAR1"
_ARRAY = re.compile(rb"\s*\[\s*\{")
# What twoarm itself writes says first what it is.
_RESULT = re.compile(
    rb'\s*\{\s*"schema"\s*:\s*"twoarm\.(analysis|calibration|comparison|history|plan|receipt)/'
)
_OBJECT = re.compile(rb"\s*\{[ \t\r]*\n")
_WORD = re.compile(r"[^\W\d][^\n]*")
_DELIMITERS = {",": ("a CSV table", ".csv"), "\t": ("a TSV table", ".tsv")}
_PACKED = (".gz", ".zst")

# What `collect table` cannot do without.
_NEEDED = ("task_id", "success", "duration_seconds")
# More arms than this are not written out.
_MOST_ARMS = 4


class _Table(NamedTuple):
    """What the file is, how its name should end, its columns, and the arms if a column says so."""

    what: str
    suffix: str
    columns: tuple[str, ...] | None
    arms: tuple[str, ...]


def refusal(head: bytes, source: str) -> str | None:
    """Why a file that begins like this has no runs, and what would do; None if that is unclear."""
    if head.startswith(_PARQUET):
        return _answer(_Table("a Parquet table", ".parquet", None, ()), source)
    if (result := _RESULT.match(head)) is not None:
        return (
            f"{source}: a twoarm {result[1].decode()}, not run records; name the run files that it "
            "was made from"
        )
    if _ARRAY.match(head):
        table = _array(head)
    elif _OBJECT.match(head):
        path = _path(source, ".json")
        return (
            f"{source}: JSON objects over several lines; write one per line: "
            f"jq -c . {shlex.quote(path)} > {COLLECTED}"
        )
    else:
        table = _delimited(head)
    return _answer(table, source) if table is not None else None


def folder_refusal(path: str, shown: str) -> str:
    """What to give instead of a folder."""
    inside = shown.rstrip("/")
    try:
        with os.scandir(path) as entries:
            names = {entry.name: entry.is_dir() for entry in entries}
    except OSError:
        names = {}
    if SCHEDULE in names:
        return f"{shown}: a run folder, not a run file; name {inside}/{COLLECTED}"
    what = f"{shown}: a folder, not a run file, and without {SCHEDULE} no run folder"
    if names.get(COLLECTED) is False:
        return f"{what}; score {inside}/{COLLECTED}"
    folders = sorted(name for name, is_folder in names.items() if is_folder and name[0] != ".")
    arms = [(visible(name), visible(name)) for name in folders]
    if len(arms) != 2:
        arms = [("with_x", "FOLDER"), ("without_x", "FOLDER")]
    flags = " ".join(f"--arm {shlex.quote(f'{arm}={inside}/{name}')}" for arm, name in arms)
    how = either(
        flag=f"make run records with: twoarm collect auto {flags} -o {COLLECTED}",
        argument="make run records with `twoarm.gather`",
    )
    return f"{what}; {how}"


def _array(head: bytes) -> _Table | None:
    rows: Any = None
    try:
        rows = json.loads(head)
    except (ValueError, RecursionError):
        first = head.lstrip().split(b"\n", 1)[0]
        if _whole(first):
            # A line of its own, with others after it.
            return None
    arms: set[str] = set()
    columns = None
    if isinstance(rows, list) and isinstance(rows[0], dict):
        columns = tuple(rows[0])
        arms = {str(row.get("arm")) for row in rows if isinstance(row, dict)}
    return _Table("a JSON array", ".json", columns, _arms(columns, arms))


def _whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _delimited(head: bytes) -> _Table | None:
    """A row of names and at least one more row with as many cells."""
    try:
        # The last line may be cut off, in the middle of a character.
        lines = head.decode(errors="ignore").splitlines()
        first = lines[0] if lines else ""
        delimiter = max(_DELIMITERS, key=first.count)
        rows = list(csv.reader(io.StringIO("\n".join(lines[:1000])), delimiter=delimiter))
    except csv.Error:
        return None
    columns = tuple(rows[0]) if rows else ()
    if len(columns) < 2 or len(rows) < 2 or len(rows[1]) != len(columns):
        return None
    if not all(map(_WORD.fullmatch, columns)):
        return None
    what, suffix = _DELIMITERS[delimiter]
    arms: set[str] = set()
    if "arm" in columns:
        at = columns.index("arm")
        arms = {row[at] for row in rows[1:] if len(row) == len(columns)}
    return _Table(what, suffix, columns, _arms(columns, arms))


def _arms(columns: tuple[str, ...] | None, arms: set[str]) -> tuple[str, ...]:
    named = columns is not None and "arm" in columns
    return tuple(sorted(map(visible, arms))) if named and len(arms) <= _MOST_ARMS else ()


def _answer(table: _Table, source: str) -> str:
    path = _path(source, table.suffix)
    save = f"save it as {path}, then " if path != source else ""
    options = ["--arm-key", "arm" if table.arms else "COLUMN"]
    for value, arm in zip(table.arms, table.arms, strict=True) if table.arms else _PLACEHOLDERS:
        options += ["--arm-map", f"{value}={arm}"]
    for field in _NEEDED if table.columns is not None else ():
        if field not in (table.columns or ()):
            options += ["--map", f"{field}=COLUMN"]
    command = shlex.join(["twoarm", "collect", "table", path, *options, "-o", COLLECTED])
    how = either(
        flag=f"make them with: {command}",
        argument='make them with `twoarm.gather("table", ...)`',
    )
    return f"{source}: {table.what}, not run records; {save}{how}"


_PLACEHOLDERS = (("VALUE", "with_x"), ("VALUE", "without_x"))


def _path(source: str, suffix: str) -> str:
    """The file under a name that `collect` reads; a stream has none yet."""
    if source.startswith("<"):
        return f"runs{suffix}"
    for packed in _PACKED:
        if source.endswith(packed):
            source = source.removesuffix(packed)
    return source if source.lower().endswith(suffix) else f"{os.path.splitext(source)[0]}{suffix}"
