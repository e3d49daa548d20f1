"""Run pages: which tasks and repeats get one, and what stands on each; and runs for a terminal."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.errors import InputError
from twoarm.options import Which
from twoarm.render.page.links import FOLDER, INDEX
from twoarm.run_pages import index as run_index
from twoarm.run_pages.page import BlockView, Listed, outcome_of, render
from twoarm.run_pages.view import RunView, Views
from twoarm.runs.metric import SUCCESS
from twoarm.runs.record import Line, OpenLine
from twoarm.runs.stream import batches, blocks_of, unpacked
from twoarm.text.escape import shortened, visible
from twoarm.text.sentence import Name, Sentence, listed, say

# More pages than this are of no use to anybody, and fill a disk; flips come first.
MOST_PAGES = 5_000
# Tasks and repeats of each that are listed for a terminal.
_MOST_LISTED = 50
_MOST_REPEATS = 20
# How much is shown of the name of an arm in a list of pages.
_ARM = 40

_DECODER = msgspec.json.Decoder(OpenLine)
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

_PAGE = re.compile(r"[A-Za-z0-9_-]{0,40}-[0-9a-f]{10}\.[0-9]+\.html")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A task and repeat, and the rows of its runs: the baseline's is the last.

    `flips` are the candidates of which the run passed and the baseline's failed, or the other way
    around.
    """

    name: str
    task_id: str
    repeat: int
    rows: tuple[int | None, ...]
    flips: tuple[int, ...]

    def listed(self, outcome: str) -> Listed:
        """Its line in a list of pages, with how its runs ended."""
        return Listed(
            task_id=self.task_id,
            repeat=self.repeat,
            outcome=outcome,
            page=self.name,
            flip=bool(self.flips),
        )


class PagesToMake(msgspec.Struct, frozen=True, kw_only=True):
    """The pages to make, flips first, and how many there would have been."""

    pages: tuple[Page, ...]
    wanted: int

    def links(self) -> dict[str, dict[int, str]]:
        """By task and repeat, where the page is, seen from the report."""
        links: dict[str, dict[int, str]] = {}
        for page in self.pages:
            links.setdefault(page.task_id, {})[page.repeat] = f"{FOLDER}/{page.name}"
        return links


def plan_pages(comparisons: Sequence[Comparison], which: Which) -> PagesToMake:
    """The pages of the runs that count, of one candidate or of several with the same baseline."""
    flips: dict[int, list[int]] = {}
    for number, comparison in enumerate(comparisons):
        pairing = comparison.pairing
        flipped = np.flatnonzero(pairing.deltas[SUCCESS.name])
        for key in comparison.screening.candidate.key[pairing.candidate[flipped]].tolist():
            flips.setdefault(key, []).append(number)
    rows: dict[int, list[int | None]] = {}
    names: dict[int, tuple[str, int]] = {}
    for number, comparison in enumerate(comparisons):
        for side, arm in zip((number, -1), comparison.screening.arms, strict=True):
            for key, row in zip(arm.key.tolist(), arm.rows.tolist(), strict=True):
                if which == "all" or key in flips:
                    rows.setdefault(key, [None] * (1 + len(comparisons)))[side] = row
                    names[key] = _key(comparison, row)
    ordered = sorted(rows, key=lambda key: (key not in flips, names[key]))
    pages = tuple(
        Page(
            name=page_name(*names[key]),
            task_id=names[key][0],
            repeat=names[key][1],
            rows=tuple(rows[key]),
            flips=tuple(flips.get(key, ())),
        )
        for key in ordered[:MOST_PAGES]
    )
    return PagesToMake(pages=pages, wanted=len(ordered))


def _key(comparison: Comparison, row: int) -> tuple[str, int]:
    runs = comparison.runs
    return runs.tasks[int(runs.task[row])], int(runs.repeat[row])


def page_name(task: str, repeat: int) -> str:
    """A name that any file system takes and no task can choose."""
    plain = "".join(c if c in _SAFE else "-" for c in task[:40])
    digest = sha256(task.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain}-{digest}.{repeat}.html"


def is_page(name: str) -> bool:
    """Whether a name is one that `page_name` gives, or that of the list."""
    return name == INDEX or _PAGE.fullmatch(name) is not None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a run file."""

    record: Line
    # The folder of the file that it was in.
    base: str


def read_records(
    plan: PagesToMake, comparison: Comparison, files: Sequence[str]
) -> dict[int, Recorded]:
    """The lines of the runs that have a page, by row."""
    places = comparison.runs.positions
    wanted = {}
    for page in plan.pages:
        for row in page.rows:
            if row is not None:
                where = places.of(row)
                wanted[where.source, where.line] = row
    return dict(_records(files, wanted))


def make_pages(
    plan: PagesToMake, records: dict[int, Recorded], out: str
) -> Iterator[tuple[str, bytes]]:
    """The pages, one at a time, so that only one is held; then the list of them."""
    views = Views()
    neighbors = _neighbors(plan, records)
    at = os.path.join(out, FOLDER)
    for page in plan.pages:
        block = BlockView(
            task_id=page.task_id,
            repeat=page.repeat,
            runs=tuple(
                views.of(records[row].record, records[row].base) if row in records else None
                for row in page.rows
            ),
            neighbors=neighbors[page.task_id],
        )
        yield page.name, render(block, at).encode("utf-8", "replace")
    entries = [
        page.listed(_changes(page, records) if page.flips else _outcome(page, records))
        for page in plan.pages
    ]
    several = any(len(page.rows) > 2 for page in plan.pages)
    index = run_index.render(entries, plan.wanted, several=several)
    yield INDEX, index.encode("utf-8", "replace")


def _records(
    files: Sequence[str], wanted: dict[tuple[str, int | None], int]
) -> Iterator[tuple[int, Recorded]]:
    """The lines of some rows, read once more."""
    for path in files:
        source = visible(os.fsencode(path).decode("utf-8", "backslashreplace"))
        base = os.path.dirname(os.path.realpath(path))
        for number, text in _lines(path, source):
            row = wanted.get((source, number))
            if row is not None and text is not None:
                yield row, Recorded(record=_DECODER.decode(text), base=base)


def _lines(path: str, source: str) -> Iterator[tuple[int, bytes | None]]:
    try:
        with open(path, "rb") as stream:
            number = 0
            for batch in batches(unpacked(blocks_of(stream, source), source)):
                for text in batch.lines():
                    number += 1
                    yield number, text
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from error


def _neighbors(plan: PagesToMake, records: dict[int, Recorded]) -> dict[str, tuple[Listed, ...]]:
    neighbors: dict[str, list[Listed]] = {}
    for page in sorted(plan.pages, key=lambda page: (page.task_id, not page.flips, page.repeat)):
        neighbors.setdefault(page.task_id, []).append(page.listed(_outcome(page, records)))
    return {task: tuple(of_task) for task, of_task in neighbors.items()}


def _outcome(page: Page, records: dict[int, Recorded]) -> str:
    """How the runs of a page ended, the baseline's last; by arm, if there are more than two."""
    runs = [records[row].record for row in page.rows if row in records]
    if len(page.rows) > 2:
        return ", ".join(f"{shortened(run.arm, _ARM)} {outcome_of(run)}" for run in runs)
    return " vs. ".join(map(outcome_of, runs))


def _changes(page: Page, records: dict[int, Recorded]) -> str:
    """What the flips of a page mean, for the candidate or for each of several."""
    changes = []
    for row in (page.rows[number] for number in page.flips):
        record = records[row].record if row in records else None
        won = record is not None and outcome_of(record) == "passed"
        change = "gained" if won else "lost"
        whose = f"{shortened(record.arm, _ARM)} " if record and len(page.rows) > 2 else ""
        changes.append(f"{whose}{change}")
    return ", ".join(changes)


def find_runs(path: str, task: str, repeat: int, arm: str | None) -> Iterator[RunView]:
    """Every run of a task and repeat in a run file, or that of one arm, for a terminal."""
    views = Views()
    base = os.path.dirname(os.path.realpath(path))
    # What was looked through, for a reader who mistyped a name.
    tasks, repeats, arms = set[str](), set[int](), set[str]()
    shown = False
    for record in _each_record(path):
        tasks.add(record.task_id)
        if record.task_id == task:
            repeats.add(record.repeat)
            if record.repeat == repeat:
                arms.add(record.arm)
                if arm in (None, record.arm):
                    shown = True
                    yield views.of(record, base)
    if shown:
        return
    if not repeats:
        raise _no_task(path, task, tasks)
    if not arms:
        what = say("no repeat {} of task {}; repeats in it: {}", repeat, Name(task), _some(repeats))
    else:
        what = say(
            "no run of arm {}; arms of this repeat: {}", Name(str(arm)), listed(sorted(arms))
        )
    raise InputError(f"{visible(path)}: {what}")


def list_runs(path: str, task: str | None) -> Iterator[str]:
    """The tasks of a run file, or one of them, and the repeats of each, in a few lines."""
    repeats: dict[str, set[int]] = {}
    for record in _each_record(path):
        repeats.setdefault(record.task_id, set()).add(record.repeat)
    if not repeats:
        raise InputError(f"{visible(path)}: no runs in it")
    if task is not None and task not in repeats:
        raise _no_task(path, task, repeats)
    names = sorted(repeats) if task is None else [task]
    for name in names[:_MOST_LISTED]:
        yield str(say("{}: repeats {}", Name(name), _some(repeats[name])))
    if len(names) > _MOST_LISTED:
        yield f"and {len(names) - _MOST_LISTED:,} more tasks"


def _each_record(path: str) -> Iterator[Line]:
    for _, text in _lines(path, visible(path)):
        try:
            record = _DECODER.decode(text) if text and text.strip() else None
        except (ValueError, RecursionError):
            continue
        if record is not None:
            yield record


def _no_task(path: str, task: str, tasks: Iterable[str]) -> InputError:
    what = say("no run of task {}; tasks in it: {}", Name(task), listed(sorted(tasks)))
    return InputError(f"{visible(path)}: {what}")


def _some(repeats: set[int]) -> Sentence:
    """The first few repeats, and how many more there are."""
    return listed([f"{repeat:,}" for repeat in sorted(repeats)], _MOST_REPEATS)
