"""The `collect` command: its options, and what it does with them."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import TYPE_CHECKING

from twoarm.commands.exit_codes import BAD, DONE
from twoarm.commands.progress import progress_bar
from twoarm.errors import BadRunsError, UsageError
from twoarm.files.write import Output, refuse_overlap, write
from twoarm.text.escape import counted, named, visible

if TYPE_CHECKING:
    from twoarm.collect.gather import ArmPath, Collection
    from twoarm.commands.console import Streams
    from twoarm.programs.format import Condition
    from twoarm.programs.table.mapping import TableMapping
    from twoarm.runs.stream import Progress

DESCRIPTION = (
    "Turn the results of other programs into run records. Arms are never guessed: name the arm "
    "of each path, or the key inside the files that decides it."
)


EPILOG = None


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm collect`."""
    parser.add_argument(
        "format",
        metavar="FORMAT",
        help="harbor, opencode, claude-code, codex, inspect, gemini-cli, mini-swe-agent, table, "
        "command; or auto, to recognize it from the files",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="with --arm-key: folders that hold both arms"
    )
    _add_arm_options(parser)
    _add_format_options(parser)
    parser.add_argument(
        "--prices", metavar="FILE", help="a price table for costs that the source lacks"
    )
    parser.add_argument(
        "--renumber",
        action="store_true",
        help="number repeats by start time even where the source numbers them",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out bad inputs and list them"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write here instead of to standard output"
    )


def _add_arm_options(parser: ArgumentParser) -> None:
    _add_repeatable(
        parser, "--arm", "NAME=PATH", "a folder or file and the arm of all runs in it; repeatable"
    )
    parser.add_argument(
        "--arm-key", metavar="KEY", help="the JSON path or column whose value decides the arm"
    )
    _add_repeatable(parser, "--arm-map", "VALUE=NAME", "the arm for a value of the arm key")
    _add_repeatable(
        parser,
        "--uptake",
        "[NAME=]PATTERN",
        "count calls that use the change: tool:mcp__search__*, command:skelly *, skill:pdf; of "
        "one arm or of all; repeatable",
    )
    _add_repeatable(
        parser, "--may-differ", "KEY", "a configuration key that may differ within an arm"
    )


def _add_format_options(parser: ArgumentParser) -> None:
    _add_repeatable(
        parser,
        "--map",
        "FIELD=COLUMN",
        "table: the column of a field, if its name differs; A+B joins two for a task",
    )
    _add_repeatable(
        parser,
        "--where",
        "COLUMN=VALUE",
        "table: only rows with this value; COLUMN!=VALUE for all others",
    )
    parser.add_argument(
        "--mapping",
        metavar="FILE",
        help="table: a file that says what --map, --where, --arm-key and --arm-map would",
    )
    parser.add_argument(
        "--input-includes-cache",
        action="store_true",
        help="table: input tokens include cached ones, which are subtracted",
    )
    parser.add_argument("--scorer", metavar="NAME", help="the score or reward that decides success")
    parser.add_argument(
        "--threshold", type=float, metavar="N", help="the least score or reward that is a success"
    )
    parser.add_argument(
        "--working-time",
        action="store_true",
        help="inspect: use the working time, which excludes waiting for rate limits",
    )
    parser.add_argument(
        "--task-names",
        action="store_true",
        help="inspect: name tasks TASK/ID, for logs of several tasks",
    )
    _add_repeatable(
        parser, "--report", "NAME=FILE", "mini-swe-agent: the SWE-bench report of an arm"
    )


def _add_repeatable(parser: ArgumentParser, option: str, metavar: str, help_text: str) -> None:
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=help_text)


def run(given: Namespace, streams: "Streams") -> int:
    """Collect, write, summarize."""
    from twoarm.collect.summary import summarize

    places = _places(given)
    _refuse_overlap(given, places)
    try:
        with progress_bar(sys.stderr) as progress:
            collection = _gathered(given, places, progress)
    except BadRunsError as error:
        streams.say(str(error))
        streams.say(
            f"twoarm: {counted(error.count, 'problem')}; nothing was written; "
            "--skip-bad leaves out inputs that cannot be read"
        )
        return BAD
    with collection:
        batches = collection.batches()
        if given.output is None:
            for batch in batches:
                streams.write_data(batch.decode())
        else:
            write([Output(path=given.output, content=batches, append=False, named=True)])
        for text in summarize(collection):
            streams.say(text)
    if given.output is not None:
        streams.say(f"twoarm: wrote {visible(given.output)}")
    return DONE


def _places(given: Namespace) -> "list[ArmPath]":
    from twoarm.collect.gather import ArmPath

    places = [ArmPath(arm=None, path=path) for path in given.paths]
    arms = _split("--arm", given.arm, "NAME=PATH")
    return places + [ArmPath(arm=arm, path=path) for arm, path in arms]


def _refuse_overlap(given: Namespace, places: "Iterable[ArmPath]") -> None:
    """Refuse to write over what is read, before anything is."""
    from twoarm.programs.output import reads

    inputs = [place.path for place in places]
    inputs += [path for _, path in _split("--report", given.report, "NAME=FILE")]
    inputs += [path for path in (given.prices, given.mapping) if path is not None]
    if given.output is None:
        refuse_overlap({"standard output": 1}, inputs)
        return
    refuse_overlap({"-o": given.output}, inputs)
    if any(reads(given.format, path, given.output) for path in inputs):
        raise UsageError(
            f"{visible(given.output)}: -o is also an input; write it under another name"
        )


def _gathered(
    given: Namespace, places: "list[ArmPath]", progress: "Progress | None"
) -> "Collection":
    from twoarm.collect.gather import CollectOptions, gather
    from twoarm.programs.format import Settings

    mapping = _mapping(given)
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
        columns=_unique(
            "--map", [*mapping.columns.items(), *_split("--map", given.map, "FIELD=COLUMN")]
        ),
        where=(*mapping.where, *_conditions(given.where)),
        input_includes_cache=given.input_includes_cache or mapping.input_includes_cache,
    )
    every, of = _uptake(given, places)
    options = CollectOptions(
        uptake=every,
        uptake_of=of,
        relative_to=_folder_of(given.output),
        arm_key=_arm_key(mapping.arm_key, given.arm_key),
        arm_map=_unique(
            "--arm-map", [*mapping.arms.items(), *((value, arm) for value, _, arm in values)]
        ),
        may_differ=given.may_differ,
        settings=settings,
        reports=_unique("--report", _split("--report", given.report, "NAME=FILE")),
        prices=given.prices,
        renumber=given.renumber,
        skip_bad=given.skip_bad,
    )
    return gather(given.format, places, options, progress)


def _mapping(given: Namespace) -> "TableMapping":
    from twoarm.programs.registry import AUTO, OWN_FORMATS
    from twoarm.programs.table.mapping import NO_MAPPING, read_mapping

    if given.mapping is None:
        return NO_MAPPING
    if given.format in (AUTO, *OWN_FORMATS) and given.format != "table":
        raise UsageError(f"--mapping has no effect with format {given.format}; it applies to table")
    return read_mapping(given.mapping)


def _arm_key(mapped: str | None, given: str | None) -> str | None:
    if mapped is not None and given is not None and mapped != given:
        raise UsageError(f"--arm-key: given twice, as {named(mapped)} and {named(given)}")
    return mapped if given is None else given


def _conditions(texts: Iterable[str]) -> "Iterator[Condition]":
    from twoarm.programs.table.mapping import CONDITION, parse_condition

    for text in texts:
        condition = parse_condition(text)
        if condition is None:
            raise UsageError(f"--where {named(text)}: {CONDITION}")
        yield condition


def _folder_of(output: str | None) -> str:
    """Where the records will be: a pipe or a device is nowhere, and a reader of it is here."""
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        return os.getcwd()
    return os.path.dirname(os.path.realpath(output))


def _uptake(given: Namespace, places: "list[ArmPath]") -> tuple[list[str], dict[str, list[str]]]:
    """The patterns for all arms, and those of single ones."""
    from twoarm.programs.uptake import KINDS

    kinds = tuple(f"{kind}:" for kind in KINDS)
    arms = {place.arm for place in places if place.arm is not None}
    arms |= {text.rpartition("=")[2] for text in given.arm_map}
    every: list[str] = []
    of: dict[str, list[str]] = {}
    for text in given.uptake:
        arm, equals, pattern = text.partition("=")
        if text.startswith(kinds) or not (equals and pattern.startswith(kinds)):
            every.append(text)
        elif arm not in arms:
            listing = ", ".join(named(one) for one in sorted(arms))
            raise UsageError(f"--uptake {named(text)}: no arm {named(arm)}; arms are {listing}")
        else:
            of.setdefault(arm, []).append(pattern)
    return every, of


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
            raise UsageError(f"{option} {named(name)}: given twice, with different values")
    return made
