"""A run with everything around it: prompt, events, last words, logs, and why it counts as it does.

Only files of run folders are read, and only inside the folder of the run file that names them: a
record from elsewhere may name any path.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from twoarm.errors import InputError
from twoarm.programs.caveats import CAVEATS
from twoarm.programs.entry import Entries, Excerpt, ends_of, keep
from twoarm.programs.event import Event
from twoarm.programs.folder import Folder, SourceError, inside, walk
from twoarm.programs.format import Format
from twoarm.programs.program import installed
from twoarm.programs.registry import events_of, load_formats, recognized
from twoarm.programs.run_folder import OUTPUTS
from twoarm.programs.sidecar import NAME as SIDECAR
from twoarm.runs.record import MOST_CHECKS, Line
from twoarm.text.sentence import Name, Sentence, listed, say

# Logs beside a run, in the order in which they are shown; what each may take on a page, and
# whether an empty one says something: a check that printed nothing, a run that changed nothing.
# The last is a diff or not.
_LOGS = (
    ("acceptance", ("acceptance.log", "verifier/test-stdout.txt"), 12_000, True, False),
    ("change", ("diff.patch",), 24_000, True, True),
    ("standard error", ("stderr.log", "stderr.txt", "exception.txt"), 4_000, False, False),
)
_PROMPT = "prompt.txt"
_LONGEST_PROMPT = 8_000
# Files that are linked to where they are there.
_FILES = (*OUTPUTS, "export.json", "agent/trajectory.json", "trajectory.json", SIDECAR)


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A file beside a run."""

    label: str
    text: Excerpt
    path: str
    is_diff: bool


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see of one run."""

    record: Line
    why: tuple[Sentence, ...]
    # None where the files are not there, with the reason.
    entries: Entries | None
    missing: str
    prompt: Excerpt | None
    logs: tuple[Log, ...]
    # The output of the agent and other files, as paths.
    files: tuple[str, ...]


class Views:
    """Reads runs from the files that their records name."""

    def __init__(self) -> None:
        self._programs = installed()
        self._formats: Mapping[str, Format] = load_formats().known

    def of(self, record: Line, base: str) -> RunView:
        """The run of a record that was read from a file in the folder `base`."""
        try:
            folder, name = _place(record, base)
        except InputError as error:
            return RunView(
                record=record,
                why=tuple(why(record)),
                entries=None,
                missing=str(error),
                prompt=None,
                logs=(),
                files=(),
            )
        prompt = ends_of(folder, _PROMPT, _LONGEST_PROMPT) if _PROMPT in folder else None
        entries = keep(self._events(folder, name, record))
        others = [file for file in _FILES if _there(folder, file)]
        return RunView(
            record=record,
            why=tuple(why(record)),
            entries=entries,
            missing="",
            prompt=prompt or entries.prompt,
            logs=tuple(_logs(folder)),
            files=tuple(os.path.join(folder.path, file) for file in dict.fromkeys((name, *others))),
        )

    def _events(self, folder: Folder, name: str, record: Line) -> Iterator[Event]:
        try:
            program = self._programs[self._program(folder, name)]
            yield from events_of(program, folder, name, record.run_id)
        except SourceError as error:
            yield Event(kind="note", text=f"cannot be shown: {error.problem.message}")
        except RecursionError:
            yield Event(kind="note", text="cannot be shown: nested too deeply")

    def _program(self, folder: Folder, name: str) -> str:
        """The program of a folder: of several, the one that claims the file of the run."""
        programs = recognized(folder, self._formats)
        claiming = (each for each in programs if name in self._formats[each].claims(folder))
        return next(claiming, programs[0] if programs else "command")


def _place(record: Line, base: str) -> tuple[Folder, str]:
    """The folder of a run and the file that it was read from."""
    if not record.run_path and record.failure == "missing":
        raise InputError("it has not been run")
    if not record.run_path:
        raise InputError(
            "the record has no `run_path`; add it to the record, see docs/records.md, or collect "
            "the runs again"
        )
    path = os.path.normpath(os.path.join(base, record.run_path))
    # A sample of a log has its number after the path, or its place in the archive.
    while not os.path.isfile(path) and ":" in path:
        path = path.rpartition(":")[0]
    if "\0" in path or not os.path.isfile(path):
        raise InputError("its files are not there any more, or not beside the run file")
    place, name = os.path.split(path)
    try:
        inside(path, os.path.realpath(base or "."))
    except SourceError as error:
        raise InputError("its files are not in the folder of the run file, or below it") from error
    folder = next(iter(walk(place or ".")))
    assert isinstance(folder, Folder)
    return folder, name


def _there(folder: Folder, name: str) -> bool:
    first = name.split("/", 1)[0]
    return first in folder and os.path.isfile(os.path.join(folder.path, name))


def _logs(folder: Folder) -> Iterator[Log]:
    for label, names, most, says, is_diff in _LOGS:
        for name in names:
            if _there(folder, name):
                text = ends_of(folder, name, most)
                if says or text.head.strip():
                    path = os.path.join(folder.path, name)
                    yield Log(label=label, text=text, path=path, is_diff=is_diff)
                break


def diff_roles(lines: Iterable[str], *, inside: bool) -> Iterator[str]:
    """What each line of a diff is: `good` was added, `bad` removed, `faint` says where.

    `inside` says that the first line is in the middle of a change.
    """
    for line in lines:
        if line.startswith(("diff ", "@@")):
            inside = line.startswith("@@")
            yield "faint"
        elif not inside:
            yield "faint"
        else:
            yield {"+": "good", "-": "bad"}.get(line[:1], "")


def why(record: Line) -> Iterator[Sentence]:
    """Why a run counts as it does, from what its record says."""
    failure = None if record.failure is msgspec.UNSET else record.failure
    reason = record.failure_reason or "no reason given"
    if failure == "infra":
        yield say("excluded: an infra failure: {}", Name(reason))
    elif failure == "agent":
        yield say("counts as failed: a failure of the agent: {}", Name(reason))
    elif failure == "missing":
        yield say("missing: planned, and without a run: {}", Name(reason))
    elif failure == "interrupted":
        yield say("not counted: it broke off: {}", Name(reason))
    code = record.acceptance_exit_code
    ended = None if code is None else say("acceptance ended with exit code {}", code)
    if failure is None:
        counts = "counts as passed" if record.success else "counts as failed"
        because = ended is not None and (code == 0) == record.success
        yield say("{}: {}", counts, ended) if because else say(counts)
        ended = None if because else ended
    if ended is not None:
        yield ended
    if record.agent_exit_code:
        yield say("the agent ended with exit code {}", record.agent_exit_code)
    yield from _graded(record)
    if record.uptake_count is not None:
        yield say("uses of the change: {}", record.uptake_count)
    tags = record.tags if isinstance(record.tags, Sequence) else ()
    for tag in () if isinstance(tags, str) else tags[:20]:
        known = CAVEATS.get(tag) if isinstance(tag, str) else None
        yield say("{}", known) if known else say("tag {}", Name(str(tag)))


def _graded(record: Line) -> Iterator[Sentence]:
    """How much of the task was done, and which checks found that."""
    if record.score is not None:
        yield say("score {}", f"{record.score:.3g}")
    checks = record.checks or {}
    for what, passed in (("passed", True), ("failed", False), ("not known", None)):
        names = [name for name in checks if checks[name] is passed]
        if names:
            yield say("checks {}: {}", what, listed(names, MOST_CHECKS))
