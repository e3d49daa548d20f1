"""The run folder: what was done and what was spent, as the folders themselves show.

A trial is done when its folder has been renamed into `runs/`; nothing else decides. The journal is
a log for people.
"""

import errno
import marshal
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import msgspec

from twoarm.errors import InputError, OutputError, UsageError
from twoarm.escape import visible
from twoarm.run.schedule import Frozen, Trial, frozen_bytes, thaw

_WAIT_SECONDS = 120.0
OUTCOME = "outcome"
TRIAL = "trial.json"

# What a runner makes before the first trial.
_OWN = {
    "lock",
    "schedule.json",
    "place.json",
    ".attempts",
    "runs",
    "setup",
    "journal.jsonl",
    "stop",
}

T = TypeVar("T")

State = Literal["running", "run", "infra", "interrupted", "lost"]


class Attempted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`trial.json`: one attempt, before it starts and after it ended."""

    task: str
    repeat: int
    arm: str
    attempt: int
    # How many trials ran at a time.
    jobs: int
    state: State
    # What it may cost at most; None where nothing limits it.
    reserved_usd: float | None
    reason: str | None = None
    # None where nobody knows.
    cost_usd: float | None = None
    # What counts against the budget: a cost that is not known is what was reserved.
    charged_usd: float | None = None
    # The format of `collect` that reads the folder.
    format: str | None = None
    success: bool | None = None
    failure: str | None = None
    # Whatever the supervisor told.
    facts: dict[str, Any] = {}

    @property
    def trial(self) -> Trial:
        """The trial that this is an attempt at."""
        return Trial(task=self.task, repeat=self.repeat, arm=self.arm)

    @property
    def id(self) -> str:
        """The name of the attempt."""
        return f"{self.trial.id}.{self.attempt}"


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """`place.json`: what depends on this machine, and is not in the schedule for that."""

    # In the name of the cache folder and in the environment of every process.
    token: str
    suite: str
    jobs: int
    isolation: str
    keep: str
    # As given on the command line or in the suite; a budget may grow, a trial's limit may not.
    budget_usd: float | None
    trial_usd: float | None


_ATTEMPTED = msgspec.json.Decoder(Attempted)
_HOME = msgspec.json.Decoder(Home)


class RunFolder:
    """One run folder, held by one runner."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._lock: int | None = None
        self._journal: int | None = None

    def at(self, *names: str) -> str:
        """A path in it."""
        return os.path.join(self.path, *names)

    # Making and opening.

    def create(self, frozen: Frozen, home: Home) -> None:
        """A new folder, held by this process; an empty one that is there will do."""
        try:
            os.makedirs(self.path, exist_ok=True)
            if self.begun():
                raise UsageError(
                    f"{visible(self.path)} has a schedule already; continue it with "
                    "--resume, or choose another folder with --out"
                )
            if any(name.removesuffix(".tmp") not in _OWN for name in os.listdir(self.path)):
                raise UsageError(f"{visible(self.path)} is not empty; choose another with --out")
            self.hold()
            for name in (".attempts", "runs"):
                os.makedirs(self.at(name), exist_ok=True)
            write_file(self.at("place.json"), _pretty(home))
            # The last one: a folder with a schedule is complete.
            write_file(self.at("schedule.json"), frozen_bytes(frozen))
        except OSError as error:
            raise unwritable(self.path, error) from error

    def begun(self) -> bool:
        """Whether a trial was ever started: until then the folder may be used for another suite."""
        return any(True for _ in self.attempts()) or any(True for _ in self.runs())

    def frozen(self) -> Frozen:
        """The schedule."""
        return self._read("schedule.json", thaw)

    def home(self) -> Home:
        """What depends on this machine."""
        return self._read("place.json", _HOME.decode)

    def change(self, home: Home) -> None:
        """Another number of jobs, or a suite that has moved."""
        write_file(self.at("place.json"), _pretty(home))

    def _read(self, name: str, decode: Callable[[bytes], T]) -> T:
        path = self.at(name)
        try:
            with open(path, "rb") as file:
                return decode(file.read())
        except OSError as error:
            raise InputError(
                f"{visible(path)}: {error.strerror}; {visible(self.path)} is not a run folder"
            ) from error
        except ValueError as error:
            raise InputError(f"{visible(path)}: {visible(str(error))}") from error

    # One runner at a time, and its supervisors.

    def hold(self) -> None:
        """Be the only runner, once the supervisors of an earlier one have ended."""
        import fcntl

        self._lock = os.open(self.at("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(self._lock, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            self._lock = None
            raise UsageError(
                f"{visible(self.path)} is in use by another runner, process {visible(owner)}; "
                "see --status, or --stop it"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        self._wait_for_supervisors()

    def held_by_another(self) -> bool:
        """Whether a runner is at work here."""
        import fcntl

        try:
            lock = os.open(self.at("lock"), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def share(self) -> int:
        """A lock for a supervisor, which holds it as long as it lives."""
        import fcntl

        shared = os.open(self.at(".attempts", "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(shared, fcntl.LOCK_SH)
        return shared

    def _wait_for_supervisors(self) -> None:
        import fcntl

        os.makedirs(self.at(".attempts"), exist_ok=True)
        lock = os.open(self.at(".attempts", "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + _WAIT_SECONDS
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise UsageError(
                            f"{visible(self.path)}: trials of an earlier runner are still "
                            "ending; try again later"
                        ) from error
                    time.sleep(0.02)
        finally:
            os.close(lock)

    def release(self) -> None:
        """Let another runner have it."""
        for descriptor in (self._lock, self._journal):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._journal = None

    # The journal.

    def say(self, event: str, **fields: Any) -> None:
        """One event: one line, one write, on the disk when this returns."""
        self.mention(event, **fields)
        assert self._journal is not None
        os.fsync(self._journal)

    def mention(self, event: str, **fields: Any) -> None:
        """An event that something else on the disk tells as well; it may wait for the next one."""
        if self._journal is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            path = self.at("journal.jsonl")
            torn = _ends_within_a_line(path)
            self._journal = os.open(path, flags, 0o644)
            if torn:
                os.write(self._journal, b"\n")
        line = msgspec.json.encode({"at": round(time.time(), 3), "event": event, **fields})
        os.write(self._journal, line + b"\n")

    # Attempts.

    def begin(self, attempted: Attempted) -> str:
        """The folder of an attempt, with what it may cost on the disk before it starts."""
        folder = self.folder_of(attempted)
        # One that is there has nothing in it: a runner was killed before it wrote what follows.
        os.makedirs(folder, exist_ok=True)
        write_file(os.path.join(folder, TRIAL), _pretty(attempted))
        return folder

    def folder_of(self, attempted: Attempted) -> str:
        """Where an attempt is, until it is published."""
        name = f"{attempted.trial.name}.{attempted.attempt}"
        return self.at(".attempts", attempted.arm, name)

    def run_of(self, trial: Trial) -> str:
        """Where the run of a trial is, once it is done."""
        return self.at("runs", trial.arm, trial.name)

    def record(self, attempted: Attempted) -> None:
        """What became of an attempt."""
        folder = self.folder_of(attempted)
        write_file(os.path.join(folder, TRIAL), _pretty(attempted))
        outcome = os.path.join(folder, OUTCOME)
        if os.path.exists(outcome):
            os.unlink(outcome)

    def publish(self, attempted: Attempted) -> None:
        """The one step that makes a trial done; lost with the power, it is repeated by a resume."""
        target = self.run_of(attempted.trial)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(self.folder_of(attempted), target)

    def check_whole(self, run: Attempted) -> None:
        """Refuse a run whose files are not what they were: the power may have failed."""
        folder = self.run_of(run.trial)
        for name, size in run.facts.get("files", {}).items():
            path = os.path.join(folder, name)
            found = os.path.getsize(path) if os.path.exists(path) else 0
            if found != size:
                raise InputError(
                    f"{visible(path)}: {found:,} bytes, and {size:,} when the run was published; "
                    f"put it back, or remove {visible(folder)} to run that trial again"
                )

    def attempts(self) -> Iterator[Attempted]:
        """Everything that was ever started and not published."""
        yield from self._attempted(self.at(".attempts"))

    def runs(self) -> Iterator[Attempted]:
        """Every trial that is done."""
        yield from self._attempted(self.at("runs"))

    def _attempted(self, root: str) -> Iterator[Attempted]:
        for arm in _folders(root):
            for folder in _folders(arm):
                try:
                    with open(os.path.join(folder, TRIAL), "rb") as file:
                        yield _ATTEMPTED.decode(file.read())
                except FileNotFoundError:
                    # Killed between making the folder and writing into it: nothing was started.
                    continue
                except ValueError as error:
                    message = f"{visible(folder)}/{TRIAL}: {visible(str(error))}"
                    raise InputError(message) from error


def read_outcome(folder: str) -> dict[str, Any]:
    """What a supervisor says of its attempt; FileNotFoundError if it did not finish."""
    path = os.path.join(folder, OUTCOME)
    try:
        with open(path, "rb") as file:
            told: dict[str, Any] = marshal.loads(file.read())
    except (EOFError, ValueError, TypeError) as error:
        # Half a file, after the power failed, is as good as none.
        raise FileNotFoundError(errno.ENOENT, str(error), path) from error
    return told


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _ends_within_a_line(path: str) -> bool:
    """Whether the power failed, or the disk was full, while a line was written."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def _pretty(document: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def write_file(path: str, text: bytes) -> None:
    """All of a file or nothing, on the disk when this returns.

    Not by `twoarm.write`: twice per attempt, it need not hold off signals and keep the old file.
    """
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def unwritable(path: str, error: OSError) -> OutputError:
    """The error of a folder that takes no more; nothing that was in it is lost."""
    full = "; make room, then use --resume" if error.errno == errno.ENOSPC else ""
    return OutputError(f"{visible(path)}: cannot be written: {error.strerror}{full}")
