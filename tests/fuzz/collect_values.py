"""A hostile value at any key of any fixture of `collect`: a record that can be read, or a problem.

The fixture is arm `a`, a good run of the same program arm `b`. Whatever the value does, nothing but
an error of twoarm's own is raised, arm `b` is collected as ever, and a run of arm `a` that gives no
record is reported.
"""

import csv
import io
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tests.support.collect_fixtures import FIXTURES, TABLE_COLUMNS
from twoarm.collect.gather import ArmPath, CollectOptions, gather
from twoarm.errors import ArmsError, BadRunsError, TwoarmError
from twoarm.programs.format import Settings
from twoarm.runs.record import Line

# Every fixture that is a run folder, and one of each other kind.
FOLDERS = [
    ("harbor", "harbor/ab-demo/hello__NWPfFvL"),
    ("inspect", "inspect/ok"),
    ("inspect", "inspect/errors"),
    ("table", "table"),
    *(
        (folder.parent.parent.name.replace("opencode-old", "opencode"), str(folder.parent))
        for folder in sorted(
            path.relative_to(FIXTURES)
            for path in FIXTURES.glob("*/*/run.json")
            # It needs the run that it resumed beside it.
            if path.parent.name != "resume"
        )
    ),
]

GOOD = {
    "harbor": "harbor/ab-demo/hello__NWPfFvL",
    "opencode": "opencode/ok",
    "claude-code": "claude-code/ok",
    "codex": "codex/ok",
    "inspect": "inspect/ok",
    "gemini-cli": "gemini-cli/ok_stream",
    "mini-swe-agent": "mini-swe-agent/ok",
    "table": "table",
}

SETTINGS = {"table": Settings(columns=TABLE_COLUMNS | {"task_id": "variant"})}
MAY_DIFFER = ("eval", "config", "model", "version", "source", "agent_info")

# Text that stands for JSON which Python does not write.
_RAW = {
    "@digits@": "1" * 5000,
    "@far@": "1" + "0" * 400,
    "@double@": "1e400",
    "@deep@": "[" * 5000 + "]" * 5000,
    "@deep objects@": '{"a":' * 900 + "1" + "}" * 900,
    "@deep lists@": "[" * 950 + "]" * 950,
}

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    0.9,
    -0.0,
    5e-324,
    1e15,
    1e306,
    1.7e308,
    float("nan"),
    float("inf"),
    2**31,
    2**53 - 1,
    2**53,
    2**63,
    2**64,
    10**30,
    -(10**30),
    10**306,
    "",
    " ",
    "²",
    "1.²",
    "①",
    "0",
    "00",
    "-1",
    "1e400",
    "nan",
    "9" * 5000,
    "x" * 100_000,
    "\0",
    "\ud800",
    "\u202e\n\r\t",
    "../../..",
    "`|<script>",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999-14:00",
    "2026-11-15",
    "2026-13-45T99:99:99Z",
    "ses_x",
    "success",
    "error",
    "result",
    "step_finish",
    "turn.completed",
    "C",
    [],
    {},
    [None],
    [[]],
    [1, "a", {}],
    {"": None},
    {"a": {"b": {"c": 1}}},
    {"message": {"message": []}},
    *_RAW,
]

_LINE = msgspec.json.Decoder(Line)


def once(seed: int) -> None:
    """One value at one key of one fixture."""
    chance = random.Random(seed)
    name = chance.choice(list(GOOD))
    case = chance.choice([case for format_name, case in FOLDERS if format_name == name])
    with tempfile.TemporaryDirectory() as place:
        good, bad = FIXTURES / GOOD[name], Path(place, "bad")
        shutil.copytree(FIXTURES / case, bad, ignore=shutil.ignore_patterns("expected.json"))
        usual = len(_collect(name, {"a": bad}, skip_bad=False)[0])
        expected = len(_collect(name, {"b": good}, skip_bad=False)[0])
        _spoil(chance, bad)
        for skip_bad in (False, True):
            try:
                lines, problems = _collect(name, {"a": bad, "b": good}, skip_bad=skip_bad)
            except TwoarmError as error:
                if skip_bad and not _is_clash(error):
                    raise AssertionError(f"{case}: not skipped: {error}") from error
                continue
            runs = [_LINE.decode(line) for line in lines]
            arms = [run.arm for run in runs]
            assert arms.count("b") == expected, f"{case}: good runs are lost"
            reported = arms.count("a") >= usual or problems
            assert reported, f"{case}: neither a record nor a problem"
            kept = [(run.task_id, run.arm, run.repeat) for run in runs if run.failure != "infra"]
            assert len(set(kept)) == len(kept), f"{case}: one repeat twice"


def _collect(name: str, arms: dict[str, Path], *, skip_bad: bool) -> tuple[list[bytes], int]:
    places = [ArmPath(arm=arm, path=str(path)) for arm, path in arms.items()]
    options = CollectOptions(
        may_differ=MAY_DIFFER, settings=SETTINGS.get(name, Settings()), skip_bad=skip_bad
    )
    with gather(name, places, options) as found:
        return list(found.lines()), len(found.problems)


def _is_clash(error: TwoarmError) -> bool:
    """Whether good runs contradict each other, which nothing may skip."""
    if not isinstance(error, BadRunsError):
        return isinstance(error, ArmsError)
    return all("repeat" in problem.message for problem in error.problems)


def _spoil(chance: random.Random, folder: Path) -> None:
    """Put a hostile value at any key of any file of a folder."""
    paths = sorted(path for path in folder.rglob("*.*") if path.suffix != ".log")
    path = chance.choice([path for path in paths if path.read_bytes().strip()])
    value = chance.choice(VALUES)
    text = path.read_text()
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        row = chance.choice(rows[1:])
        row[chance.randrange(len(row))] = value if isinstance(value, str) else json.dumps(value)
        made = io.StringIO()
        csv.writer(made).writerows(rows)
        path.write_text(_raw(made.getvalue(), quoted=False), errors="backslashreplace")
        return
    whole = path.suffix == ".json" or text.lstrip().startswith("{\n")
    documents = [json.loads(text)] if whole else [json.loads(one) for one in text.splitlines()]
    # A whole file that is something else is of no program, and nobody could tell.
    within, key = chance.choice(_keys(documents[0]) if whole else _keys(documents))
    within[key] = value
    path.write_text("\n".join(_raw(json.dumps(one), quoted=True) for one in documents) + "\n")


def _raw(text: str, *, quoted: bool) -> str:
    for name, raw in _RAW.items():
        text = text.replace(f'"{name}"' if quoted else name, raw)
    return text


def _keys(document: Any) -> list[tuple[Any, Any]]:
    """Every object and list of a document with each of its keys."""
    if isinstance(document, dict):
        keys: Any = list(document)
    else:
        keys = range(len(document)) if isinstance(document, list) else ()
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((document, key))
        found += _keys(document[key])
    return found
