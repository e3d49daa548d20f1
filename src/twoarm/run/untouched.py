"""What acceptance found where nothing was done, and what that tells about a suite."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import msgspec

from twoarm.files.safe import OpenFolder
from twoarm.run.ledger import read_outcome
from twoarm.text.escape import named, shortened, visible
from twoarm.text.sentence import listed

# Paths of attempts, times and other numbers.
_DRAWN = re.compile(rb"/\S*/box/work|/\S*/own/home-[0-9a-f]+|[0-9a-f]{12,}|[0-9]+")
_LOG = "acceptance.log"
# How much is shown of what acceptance printed.
_LONGEST = 150


class Untouched(msgspec.Struct, frozen=True, kw_only=True):
    """What acceptance found in an untouched workspace."""

    setup_exit_code: int
    acceptance_exit_code: int = 0
    check_exit_codes: dict[str, int] = {}
    score_error: str | None = None
    # Why what it should have run in did not start.
    not_started: str | None = None
    not_judged: str | None = None
    # The last line that it printed.
    told: str = ""


def read_untouched(path: str) -> Untouched:
    """What became of one try."""
    with OpenFolder(path) as folder:
        facts = msgspec.convert(read_outcome(folder), Untouched)
        log = folder.read(_LOG) if folder.is_file(_LOG) else b""
    return msgspec.structs.replace(facts, told=_shown(log.rstrip().rpartition(b"\n")[2]))


def _shown(line: bytes) -> str:
    return shortened(line.decode("utf-8", "replace").strip(), _LONGEST)


def difference(outside: str, inside: str) -> str:
    """What was otherwise in a sandbox, of two folders; nothing if that was nothing."""
    codes, logs = [], []
    for path in (outside, inside):
        with OpenFolder(path) as folder:
            facts = msgspec.convert(read_outcome(folder), Untouched)
            codes.append((facts.acceptance_exit_code, facts.check_exit_codes))
            logs.append(folder.read(_LOG).splitlines())
    if codes[0] != codes[1]:
        told = _shown(logs[1][-1]) if logs[1] else ""
        (outer, _), (inner, _) = codes
        return (
            f" ends differently inside: exit code {outer} outside, {inner} inside"
            f"{f' ({told})' if told else ''}"
        )
    for before, after in zip_longest(*logs, fillvalue=b""):
        # Without what differs each time: numbers, and names that are drawn.
        if _DRAWN.sub(b"0", before) != _DRAWN.sub(b"0", after):
            first, then = (named(_shown(line)) if line else "nothing" for line in (before, after))
            return f" prints something different inside: {then} instead of {first}"
    return ""


def results_of(untouched: Mapping[str, Sequence[Untouched]]) -> list[str]:
    """How acceptance of each task ended where nothing was done, and the last that it said."""
    return [
        f"{visible(task)}: exit code {tries[-1].acceptance_exit_code}"
        f"{f': {tries[-1].told}' if tries[-1].told else ''}"
        for task, tries in untouched.items()
        if tries
    ]


def warnings_of(untouched: Mapping[str, Sequence[Untouched]]) -> list[str]:
    """What acceptance on the untouched workspace tells about each task."""
    warnings = []
    for task, tries in untouched.items():
        if not tries:
            continue
        passed = {each.acceptance_exit_code == 0 for each in tries}
        if passed == {True}:
            warnings.append(f"task {named(task)}: acceptance passes on the untouched workspace")
            continue
        if len(passed) > 1:
            warnings.append(f"task {named(task)}: acceptance is flaky on the untouched workspace")
        warnings += _untouched_checks(task, tries)
    return warnings


def _untouched_checks(task: str, tries: Sequence[Untouched]) -> Iterator[str]:
    """The checks that pass where nothing was done: they are in the score of every run."""
    results = {
        name: {each.check_exit_codes[name] == 0 for each in tries}
        for name in tries[0].check_exit_codes
    }
    for passed, what in (({True}, "pass"), ({True, False}, "are flaky")):
        names = [name for name, seen in results.items() if seen == passed]
        if names:
            yield (
                f"task {named(task)}: checks that {what} on the untouched workspace: "
                f"{listed(names)}"
            )
