"""The `collect` command: its options, and what it does with them."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import contextmanager
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

from twoarm.errors import BadRunsError, UsageError
from twoarm.quote import counted, inert_json, named, visible
from twoarm.write import Output, refuse_overlap, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from twoarm.collect.gather import Collection, Place, Progress
    from twoarm.console import Streams

DONE = 0
BAD = 2

# How many records are written at a time.
_BATCH = 1000

DESCRIPTION = (
    "Turn the results of other programs into run records. Arms are never guessed: name the arm "
    "of each path, or the value inside the files that tells it."
)


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm collect`."""
    parser.add_argument(
        "format",
        metavar="FORMAT",
        help="harbor, opencode, claude-code, codex, inspect, gemini-cli, mini-swe-agent, table; "
        "or auto, to recognise it from the files",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="with --arm-key: folders that hold both arms"
    )
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a folder or file and the arm of all runs in it; may be given several times",
    )
    parser.add_argument(
        "--arm-key", metavar="KEY", help="the JSON path or column whose value tells the arm"
    )
    parser.add_argument(
        "--arm-map",
        action="append",
        default=[],
        metavar="VALUE=NAME",
        help="the arm that a value of the arm key stands for",
    )
    parser.add_argument(
        "--may-differ",
        action="append",
        default=[],
        metavar="KEY",
        help="a key of the configuration that may differ within an arm",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="table: the column of a field, where it has another name",
    )
    parser.add_argument(
        "--input-includes-cache",
        action="store_true",
        help="table: input tokens include cached ones, which are subtracted",
    )
    parser.add_argument("--scorer", metavar="NAME", help="the score or reward that tells success")
    parser.add_argument(
        "--threshold", type=float, metavar="N", help="the least score or reward that is a success"
    )
    parser.add_argument(
        "--working-time",
        action="store_true",
        help="inspect: count the working time, without waiting for rate limits",
    )
    parser.add_argument(
        "--task-names",
        action="store_true",
        help="inspect: name tasks TASK/ID, for logs of several tasks",
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="mini-swe-agent: the SWE-bench report of an arm",
    )
    parser.add_argument(
        "--prices", metavar="FILE", help="a price table for costs that the source lacks"
    )
    parser.add_argument(
        "--renumber",
        action="store_true",
        help="number repeats by start time even where the source numbers them",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="go on without bad inputs, and list them"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write here and not to standard output"
    )


def run(given: Namespace, streams: "Streams") -> int:
    """Collect, write, summarise."""
    from twoarm.collect.summary import summarise

    places = _places(given)
    _refuse_overlap(given, places)
    try:
        with _bar(sys.stderr if sys.stderr.isatty() else None) as progress:
            collection = _gathered(given, places, progress)
    except BadRunsError as error:
        streams.say(str(error))
        streams.say(
            f"twoarm: {counted(error.count, 'problem')}; nothing was written; "
            "--skip-bad goes on without inputs that cannot be read"
        )
        return BAD
    with collection:
        batches = _batches(collection)
        if given.output is None:
            for batch in batches:
                streams.write_data(batch.decode())
        else:
            write([Output(path=given.output, content=batches, append=False)])
        for text in summarise(collection):
            streams.say(text)
    if given.output is not None:
        streams.say(f"twoarm: wrote {visible(given.output)}")
    return DONE


def _batches(collection: "Collection") -> "Iterator[bytes]":
    lines = collection.lines()
    while batch := b"".join(islice(lines, _BATCH)):
        yield inert_json(batch.decode()).encode() if b"#" in batch else batch


def _places(given: Namespace) -> "list[Place]":
    from twoarm.collect.gather import Place

    places = [Place(arm=None, path=path) for path in given.paths]
    arms = _split("--arm", given.arm, "NAME=PATH")
    return places + [Place(arm=arm, path=path) for arm, path in arms]


def _refuse_overlap(given: Namespace, places: "Iterable[Place]") -> None:
    """Refuse to write over what is read, before anything is."""
    from twoarm.collect.output import reads

    inputs = [place.path for place in places]
    inputs += [path for _, path in _split("--report", given.report, "NAME=FILE")]
    inputs += [given.prices] if given.prices is not None else []
    if given.output is None:
        refuse_overlap({"standard output": 1}, inputs)
        return
    refuse_overlap({"-o": given.output}, inputs)
    if any(reads(given.format, path, given.output) for path in inputs):
        raise UsageError(
            f"{visible(given.output)}: -o is also an input; write it under another name"
        )


def _gathered(given: Namespace, places: "list[Place]", progress: "Progress | None") -> "Collection":
    from twoarm.collect.format import Settings
    from twoarm.collect.gather import gather

    values = [text.rpartition("=") for text in given.arm_map]
    if any(not equals or not arm for _, equals, arm in values):
        raise UsageError("--arm-map: write VALUE=NAME")
    if given.threshold is not None and not isfinite(given.threshold):
        raise UsageError("--threshold: write a number")
    settings = Settings(
        scorer=given.scorer,
        threshold=given.threshold,
        working_time=given.working_time,
        task_names=given.task_names,
        columns=_unique("--map", _split("--map", given.map, "FIELD=COLUMN")),
        input_includes_cache=given.input_includes_cache,
    )
    return gather(
        given.format,
        places,
        arm_key=given.arm_key,
        arm_map=_unique("--arm-map", [(value, arm) for value, _, arm in values]),
        may_differ=given.may_differ,
        settings=settings,
        reports=_unique("--report", _split("--report", given.report, "NAME=FILE")),
        prices=given.prices,
        renumber=given.renumber,
        skip_bad=given.skip_bad,
        progress=progress,
    )


def _split(option: str, texts: Iterable[str], shape: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} {named(text)}: write {shape}")
        pairs.append((name, value))
    return pairs


def _unique(option: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in pairs:
        if made.setdefault(name, value) != value:
            raise UsageError(f"{option} {named(name)}: given twice, with two meanings")
    return made


@contextmanager
def _bar(terminal: "TextIO | None") -> "Iterator[Progress | None]":
    """A progress bar on a terminal; rich is imported for nothing else."""
    if terminal is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("collecting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("folders"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=terminal), transient=True) as shown:
        task = shown.add_task("collecting", total=None)

        def progress(done: int, known: int) -> None:
            # Drawn ten times a second by rich; telling it each folder would cost more than reading.
            if done % 64 == 0 or done == known:
                shown.update(task, completed=done, total=known)

        yield progress
