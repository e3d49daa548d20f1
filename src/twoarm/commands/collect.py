"""The `collect` command: its options, and what it does with them."""

import os
import sys
from argparse import ArgumentParser, _ArgumentGroup
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import TYPE_CHECKING

from twoarm.commands.exit_codes import BAD, DONE
from twoarm.commands.given import Given, taken, written
from twoarm.commands.progress import progress_bar
from twoarm.commands.score_options import number
from twoarm.errors import BadRunsError, UsageError
from twoarm.files.write import Output, refuse_overlap, write
from twoarm.programs.program import OWN_PROGRAMS
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


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm collect`."""
    collected = parser.add_argument_group("what to collect")
    collected.add_argument(
        "format",
        metavar="FORMAT",
        help=f"{', '.join(OWN_PROGRAMS)}; or auto, to recognize it from the files",
    )
    collected.add_argument(
        "paths", nargs="*", metavar="PATH", help="with --arm-key: folders that hold both arms"
    )
    _add_arm_options(collected)
    collected.add_argument(
        "--skip-bad", action="store_true", help="leave out bad inputs and list them"
    )
    _add_measure_options(parser.add_argument_group("how to read it"))
    _add_table_options(parser.add_argument_group("tables"))
    parser.add_argument_group("output").add_argument(
        "-o", "--output", metavar="FILE", help="write here instead of to standard output"
    )


def _add_arm_options(group: _ArgumentGroup) -> None:
    _add_repeatable(
        group, "--arm", "NAME=PATH", "a folder or file and the arm of all runs in it; repeatable"
    )
    group.add_argument(
        "--arm-key", metavar="KEY", help="the JSON path or column whose value decides the arm"
    )
    _add_repeatable(group, "--arm-map", "VALUE=NAME", "the arm for a value of the arm key")
    _add_repeatable(
        group, "--may-differ", "KEY", "a configuration key that may differ within an arm"
    )


def _add_measure_options(group: _ArgumentGroup) -> None:
    _add_repeatable(
        group,
        "--uptake",
        "[NAME=]PATTERN",
        "count calls that use the change: tool:mcp__search__*, command:skelly *, skill:pdf; of "
        "one arm or of all; repeatable",
    )
    group.add_argument(
        "--prices", metavar="FILE", help="a price table for costs that the source lacks"
    )
    group.add_argument(
        "--renumber",
        action="store_true",
        help="number repeats by start time even where the source numbers them",
    )
    group.add_argument("--scorer", metavar="NAME", help="the score or reward that decides success")
    group.add_argument(
        "--threshold", type=number, metavar="N", help="the least score or reward that is a success"
    )
    group.add_argument(
        "--working-time",
        action="store_true",
        help="inspect: use the working time, which excludes waiting for rate limits",
    )
    group.add_argument(
        "--task-names",
        action="store_true",
        help="inspect: name tasks TASK/ID, for logs of several tasks",
    )
    _add_repeatable(
        group, "--report", "NAME=FILE", "mini-swe-agent: the SWE-bench report of an arm"
    )


def _add_table_options(group: _ArgumentGroup) -> None:
    _add_repeatable(
        group,
        "--map",
        "FIELD=COLUMN",
        "the column of a field, if its name differs; A+B joins two for a task",
    )
    _add_repeatable(
        group,
        "--where",
        "COLUMN=VALUE",
        "only rows with this value; COLUMN!=VALUE for all others",
    )
    group.add_argument(
        "--mapping",
        metavar="FILE",
        help="a file that says what --map, --where, --arm-key and --arm-map would",
    )
    group.add_argument(
        "--input-includes-cache",
        action="store_true",
        help="input tokens include cached ones, which are subtracted",
    )


def _add_repeatable(group: _ArgumentGroup, option: str, metavar: str, help_text: str) -> None:
    group.add_argument(option, action="append", metavar=metavar, help=help_text)


def run(given: Given, streams: "Streams") -> int:
    """Collect, write, summarize."""
    from twoarm.collect.summary import summarize

    output: str | None = given.get("output")
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
        if output is None:
            for batch in batches:
                streams.write_data(batch.decode())
        else:
            write([Output(path=output, content=batches, append=False, named=True)])
        for text in summarize(collection):
            streams.say(text)
    if output is not None:
        streams.say(f"twoarm: wrote {visible(output)}")
    return DONE


def _places(given: Given) -> "list[ArmPath]":
    from twoarm.collect.gather import ArmPath

    places = [ArmPath(arm=None, path=path) for path in given.get("paths", ())]
    arms = _split(given, "arm", "NAME=PATH")
    return places + [ArmPath(arm=arm, path=path) for arm, path in arms]


def _refuse_overlap(given: Given, places: "Iterable[ArmPath]") -> None:
    """Refuse to overwrite an input, before anything is read."""
    from twoarm.collect.output import reads

    inputs = [place.path for place in places]
    inputs += [path for _, path in _split(given, "report", "NAME=FILE")]
    inputs += [given[name] for name in ("prices", "mapping") if name in given]
    if "output" not in given:
        refuse_overlap({"standard output": 1}, inputs)
        return
    output = given["output"]
    refuse_overlap({"-o": output}, inputs)
    if any(reads(given["format"], path, output) for path in inputs):
        raise UsageError(f"{visible(output)}: -o is also an input; write it under another name")


def _gathered(given: Given, places: "list[ArmPath]", progress: "Progress | None") -> "Collection":
    from twoarm.collect.gather import CollectOptions, gather
    from twoarm.programs.format import Settings

    mapping = _mapping(given)
    values = [text.rpartition("=") for text in given.get("arm_map", ())]
    if any(not equals or not arm for _, equals, arm in values):
        raise UsageError("--arm-map: write VALUE=NAME")
    if not isfinite(given.get("threshold", 0.0)):
        raise UsageError("--threshold: write a number")
    settings = taken(
        Settings,
        given,
        columns=_unique("--map", [*mapping.columns.items(), *_split(given, "map", "FIELD=COLUMN")]),
        where=(*mapping.where, *_conditions(given.get("where", ()))),
        input_includes_cache="input_includes_cache" in given or mapping.input_includes_cache,
    )
    every, of = _uptake(given, places)
    options = taken(
        CollectOptions,
        given,
        uptake=every,
        uptake_of=of,
        relative_to=_folder_of(given.get("output")),
        arm_key=_arm_key(mapping.arm_key, given.get("arm_key")),
        arm_map=_unique(
            "--arm-map", [*mapping.arms.items(), *((value, arm) for value, _, arm in values)]
        ),
        settings=settings,
        reports=_unique("--report", _split(given, "report", "NAME=FILE")),
    )
    return gather(given["format"], places, options, progress)


def _mapping(given: Given) -> "TableMapping":
    from twoarm.programs.registry import AUTO
    from twoarm.programs.table.mapping import NO_MAPPING, read_mapping

    name = given["format"]
    if "mapping" not in given:
        return NO_MAPPING
    if name in (AUTO, *OWN_PROGRAMS) and name != "table":
        raise UsageError(f"--mapping has no effect with format {name}; it applies to table")
    return read_mapping(given["mapping"])


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
    """The folder the records will be in; the current one if the output is a pipe or a device."""
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        return os.getcwd()
    return os.path.dirname(os.path.realpath(output))


def _uptake(given: Given, places: "list[ArmPath]") -> tuple[list[str], dict[str, list[str]]]:
    """The patterns for all arms, and those for single arms."""
    from twoarm.programs.uptake import KINDS

    kinds = tuple(f"{kind}:" for kind in KINDS)
    arms = {place.arm for place in places if place.arm is not None}
    arms |= {text.rpartition("=")[2] for text in given.get("arm_map", ())}
    every: list[str] = []
    of: dict[str, list[str]] = {}
    for text in given.get("uptake", ()):
        arm, equals, pattern = text.partition("=")
        if text.startswith(kinds) or not (equals and pattern.startswith(kinds)):
            every.append(text)
        elif arm not in arms:
            listing = ", ".join(named(known) for known in sorted(arms))
            raise UsageError(f"--uptake {named(text)}: no arm {named(arm)}; arms are {listing}")
        else:
            of.setdefault(arm, []).append(pattern)
    return every, of


def _split(given: Given, option: str, shape: str) -> list[tuple[str, str]]:
    pairs = []
    for text in given.get(option, ()):
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{written(option)} {named(text)}: write {shape}")
        pairs.append((name, value))
    return pairs


def _unique(option: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in pairs:
        if made.setdefault(name, value) != value:
            raise UsageError(f"{option} {named(name)}: given twice, with different values")
    return made
