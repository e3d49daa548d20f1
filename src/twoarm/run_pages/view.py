"""A run with everything around it: prompt, events, last words, logs, and why it counts as it does.

Only files of run folders are read, and only inside the folder of the run file that names them: a
record from elsewhere may name any path.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from twoarm.errors import InputError
from twoarm.programs import documents, streams
from twoarm.programs.caveats import CAVEATS
from twoarm.programs.entry import LONGEST_TEXT, Entries, Event, Text, cut, keep
from twoarm.programs.folder import Folder, SourceError, inside, walk
from twoarm.programs.format import Format
from twoarm.programs.harbor.record import TRAJECTORY
from twoarm.programs.mini_swe_agent.record import SUFFIX
from twoarm.programs.opencode.record import EXPORT
from twoarm.programs.registry import load_formats, recognized
from twoarm.programs.run_folder import OUTPUTS
from twoarm.programs.sidecar import NAME as SIDECAR
from twoarm.runs.record import Line
from twoarm.text.sentence import Name, Sentence, say

# Logs beside a run, in the order in which they are shown; what each may take on a page, and
# whether an empty one says something: a check that printed nothing, a run that changed nothing.
_LOGS = (
    ("acceptance", ("acceptance.log", "verifier/test-stdout.txt"), 12_000, True),
    ("change", ("diff.patch",), 24_000, True),
    ("standard error", ("stderr.log", "stderr.txt", "exception.txt"), 4_000, False),
)
_PROMPT = "prompt.txt"
_LONGEST_PROMPT = 8_000
# Bytes that are read from each end of a log.
_END = 2**16


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A file beside a run."""

    label: str
    text: Text
    path: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see of one run."""

    record: Line
    why: tuple[Sentence, ...]
    # None where the files are not there, with the reason.
    entries: Entries | None
    missing: str
    prompt: Text | None
    logs: tuple[Log, ...]
    # The output of the agent and other files, as paths.
    files: tuple[str, ...]


class Views:
    """Reads runs from the files that their records name."""

    def __init__(self) -> None:
        self._formats: Mapping[str, Format] = load_formats().known

    def of(self, record: Line, base: str) -> RunView:
        """The run of a record that was read from a file in the folder `base`."""
        try:
            folder, name = _place(record.run_path, base)
        except InputError as error:
            return _bare(record, str(error))
        prompt = None
        if _PROMPT in folder:
            prompt = _read(folder, _PROMPT, _LONGEST_PROMPT)
        entries = keep(self._events(folder, name, record))
        logs = tuple(_logs(folder))
        others = [
            one for one in (*OUTPUTS, "export.json", TRAJECTORY, SIDECAR) if _there(folder, one)
        ]
        return RunView(
            record=record,
            why=tuple(why(record)),
            entries=entries,
            missing="",
            prompt=prompt or entries.prompt,
            logs=logs,
            files=tuple(os.path.join(folder.path, one) for one in dict.fromkeys((name, *others))),
        )

    def _events(self, folder: Folder, name: str, record: Line) -> Iterator[Event]:
        try:
            programs = recognized(folder, self._formats)
            yield from _of_program(programs[0] if programs else "", folder, name, record)
        except SourceError as error:
            yield Event(kind="note", text=f"cannot be shown: {error.problem.message}")


def _bare(record: Line, missing: str) -> RunView:
    return RunView(
        record=record,
        why=tuple(why(record)),
        entries=None,
        missing=missing,
        prompt=None,
        logs=(),
        files=(),
    )


def _place(run_path: str | None, base: str) -> tuple[Folder, str]:
    """The folder of a run and the file that it was read from."""
    if not run_path:
        raise InputError(
            "the record has no `run_path`; add it to the record, see docs/records.md, or collect "
            "the runs again"
        )
    path = os.path.normpath(os.path.join(base, run_path))
    # A sample of a log has its number after the path.
    while not os.path.isfile(path) and ":" in os.path.basename(path):
        path = path.rpartition(":")[0]
    if "\0" in path or not os.path.isfile(path):
        raise InputError("its files are not there any more, or not beside the run file")
    place, name = os.path.split(path)
    try:
        inside(path, os.path.realpath(base or "."))
    except SourceError as error:
        raise InputError("its files are not in the folder of the run file, or below it") from error
    found = next(iter(walk(place or ".")))
    assert isinstance(found, Folder)
    return found, name


def _of_program(program: str, folder: Folder, name: str, record: Line) -> Iterator[Event]:
    output = next((one for one in OUTPUTS if one in folder), None)
    if program == "inspect":
        yield from documents.inspect_sample(folder, name, record.run_id)
    elif name.endswith(SUFFIX):
        yield from documents.mini_swe_agent(documents.document(folder, name))
    elif program == "harbor":
        if _there(folder, TRAJECTORY):
            yield from documents.harbor_trajectory(documents.document(folder, TRAJECTORY))
        else:
            yield Event(kind="note", text="the agent left no trajectory")
    elif program == "opencode" and output is None:
        yield from documents.opencode_export(documents.document(folder, EXPORT))
    elif output is None:
        yield Event(kind="note", text="the program left no output")
    elif program == "gemini-cli" and not folder.head(output).startswith(b'{"type":'):
        yield from documents.gemini_document(documents.document(folder, output))
    elif program == "codex":
        rollout = next((one for one in folder.names if one.startswith("rollout")), None)
        reader = streams.codex if rollout is None else streams.codex_rollout
        yield from streams.of_lines(folder, rollout or output, reader)
    elif program == "claude-code" and output.endswith(".json"):
        reader = streams.ClaudeCode()
        found = documents.document(folder, output)
        for one in streams.rows(found if isinstance(found, list) else [found]):
            yield from reader(one)
    elif program == "claude-code":
        yield from streams.of_lines(folder, output, streams.ClaudeCode())
    elif program in _STREAMS:
        yield from streams.of_lines(folder, output, _STREAMS[program])
    else:
        found = _read(folder, output, LONGEST_TEXT)
        gap = f"\n... {found.left_out:,} characters left out ...\n" if found.left_out else ""
        yield Event(kind="message", text=f"{found.head}{gap}{found.tail}")


_STREAMS: dict[str, streams.Reader] = {
    "gemini-cli": streams.gemini_cli,
    "opencode": streams.opencode,
}


def _there(folder: Folder, name: str) -> bool:
    first = name.split("/", 1)[0]
    return first in folder and os.path.isfile(os.path.join(folder.path, name))


def _logs(folder: Folder) -> Iterator[Log]:
    for label, names, most, says in _LOGS:
        for name in names:
            if _there(folder, name):
                text = _read(folder, name, most)
                if says or text.head.strip():
                    yield Log(label=label, text=text, path=os.path.join(folder.path, name))
                break


def _read(folder: Folder, name: str, most: int) -> Text:
    """A file as text, or its two ends if it is long: no more than those is read."""
    try:
        size = folder.size(name)
        with folder.open(name) as stream:
            start: bytes = stream.read(2 * _END)
            end = b""
            if size > 2 * _END:
                start = start[:_END]
                stream.seek(size - _END)
                end = stream.read(_END)
    except (SourceError, OSError):
        return Text(head="")
    text = cut(f"{start.decode('utf-8', 'replace')}{end.decode('utf-8', 'replace')}", most)
    gone = size - 2 * _END if end else 0
    return Text(head=text.head, tail=text.tail, left_out=text.left_out + gone)


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
    if record.uptake_count is not None:
        yield say("uses of the change: {}", record.uptake_count)
    tags = record.tags if isinstance(record.tags, Sequence) else ()
    for tag in () if isinstance(tags, str) else tags[:20]:
        known = CAVEATS.get(tag) if isinstance(tag, str) else None
        yield say("{}", known) if known else say("tag {}", Name(str(tag)))
