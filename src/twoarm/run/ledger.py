"""The run folder: what was done and what was spent, as the folders themselves show.

A trial is done when its folder has been renamed into `runs/`; nothing else decides. The journal is
a log for people, and says which runs are in doubt if trees were changed.
"""

import errno
import marshal
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from twoarm.errors import InputError, OutputError, UsageError
from twoarm.files.safe import OpenFolder
from twoarm.run.attempted import Attempted
from twoarm.run.place import is_token
from twoarm.run.schedule import Frozen, Trial, frozen_bytes, thaw
from twoarm.run.shard import Shard, sharded
from twoarm.runs.study import COLLECTED, SCHEDULE
from twoarm.text.escape import named, shortened, visible

_WAIT_SECONDS = 120.0
OUTCOME = "outcome"
TRIAL = "trial.json"
# Runs that may have started from changed trees; and those of whose trees nobody can tell.
DOUBTS, UNCHECKED = "doubts.json", "unchecked.json"
# What depends on the machine.
_PLACE = "place.json"
# The digests of the trees that trials start from.
TREES = "trees.json"
# A file that asks for no new trials.
STOP = "stop"
# A file that is there as long as shards are merged into the folder.
MERGING = "merging"

# What a runner makes before the first trial.
_OWN = {
    "lock",
    SCHEDULE,
    _PLACE,
    ".attempts",
    "runs",
    "setup",
    TREES,
    "journal.jsonl",
    STOP,
    # Of a budget that did not cover a single trial.
    COLLECTED,
    "receipt.json",
}

T = TypeVar("T")


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`place.json`: what depends on this machine, and so is not in the schedule."""

    # In the name of the cache folder and in the environment of every process.
    token: str
    suite: str
    jobs: int
    isolation: str
    keep: str
    # As given on the command line or in the suite; a budget may grow, a trial's limit may not.
    budget_usd: float | None
    trial_usd: float | None
    # Which share of the trials is run here; None for all of them.
    shard: Shard | None = None
    # Where trials run, as it was given.
    executor: str = "local"
    # What `--jobs` said; None for as many as there is room for.
    jobs_asked: int | None = None


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the journal."""

    event: str
    attempt: str | None = None
    node: str | None = None


# What the journal says when the trees have been looked at, and nobody has changed them.
WHOLE = "trees whole"
# And of every attempt, when it starts.
BEGUN = "begun"

_TOLD = msgspec.json.Decoder(_Told)
_ATTEMPTED = msgspec.json.Decoder(Attempted)
_MACHINE = msgspec.json.Decoder(MachineSettings)


class RunFolder:
    """One run folder, held by one runner.

    Whatever is in it may have been put there by somebody else: nothing is read or written through a
    link.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._folder: OpenFolder | None = None
        self._lock: int | None = None
        self._journal: int | None = None

    @property
    def folder(self) -> OpenFolder:
        """The folder itself; FileNotFoundError if there is none."""
        if self._folder is None:
            # A link that the user has named is the user's own.
            self._folder = OpenFolder(os.path.realpath(self.path))
        return self._folder

    def at(self, *names: str) -> str:
        """A path in it."""
        return os.path.join(self.path, *names)

    # Making and opening.

    def create(self, frozen: Frozen, machine: MachineSettings) -> None:
        """A new folder, held by this process; an empty one that is there will do."""
        try:
            os.makedirs(self.path, exist_ok=True)
            if self.begun():
                raise UsageError(
                    f"{visible(self.path)} has a schedule already; continue it with "
                    "--resume, or choose another folder with --out"
                )
            if any(name.removesuffix(".tmp") not in _OWN for name in self.folder.names()):
                raise UsageError(f"{visible(self.path)} is not empty; choose another with --out")
            self.hold(machine.token)
            for name in (".attempts", "runs"):
                self.folder.made(name).close()
            self.folder.write(_PLACE, _pretty(machine))
            self.folder.remove(TREES)
            # The last one: a folder with a schedule is complete.
            self.folder.write(SCHEDULE, frozen_bytes(frozen))
        except OSError as error:
            raise unwritable(self.path, error) from error

    def begun(self) -> bool:
        """Whether a trial was ever started: until then the folder may be used for another suite."""
        return any(True for _ in self.attempts()) or any(True for _ in self.runs())

    def frozen(self) -> Frozen:
        """The schedule."""
        self.refuse_half_merged()
        return self._read(SCHEDULE, thaw)

    def shard(self) -> Shard | None:
        """Which share of the trials is run here; None for all, and where place.json is gone."""
        return self.machine().shard if self.folder.is_file(_PLACE) else None

    def refuse_half_merged(self) -> None:
        """Refuse a folder that has some of the runs of its shards, and nobody knows which."""
        if os.path.lexists(self.at(MERGING)):
            raise InputError(
                f"{visible(self.path)}: a merge into it did not finish; remove the folder, and "
                "merge again"
            )

    def planned(self) -> Frozen:
        """The schedule with the trials that are run here."""
        return sharded(self.frozen(), self.shard())

    def machine(self) -> MachineSettings:
        """What depends on this machine."""
        machine = self._read(_PLACE, _MACHINE.decode)
        if not is_token(machine.token):
            raise InputError(
                f"{visible(self.at(_PLACE))}: {named(shortened(machine.token, 40))} is not a "
                "token of twoarm; the file was changed, so start over with another --out"
            )
        return machine

    def change(self, machine: MachineSettings) -> None:
        """Another number of jobs, or a suite that has moved."""
        self.folder.write(_PLACE, _pretty(machine))

    def _read(self, name: str, decode: Callable[[bytes], T]) -> T:
        path = self.at(name)
        try:
            return decode(self.folder.read(name))
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = f"no {name} in it" if absent else f"{name}: {error.strerror}"
            raise InputError(
                f"{visible(self.path)} is not a run folder: {why}; name one that twoarm run made"
            ) from error
        except ValueError as error:
            raise InputError(f"{visible(path)}: {visible(str(error))}") from error

    # One runner at a time, and its supervisors.

    def hold(self, token: str) -> None:
        """Be the only runner, once the supervisors of an earlier one have ended."""
        import fcntl

        self._lock = self.folder.open_own("lock")
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
        self._wait_for_supervisors(token)

    def held_by_another(self) -> bool:
        """Whether a runner is at work here."""
        import fcntl

        try:
            lock = self.folder.open("lock")
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

        shared = self._supervisors()
        fcntl.flock(shared, fcntl.LOCK_SH)
        return shared

    def _supervisors(self) -> int:
        """What supervisors lock as long as they live."""
        with self.folder.made(".attempts") as attempts:
            return attempts.open_own("lock")

    def _wait_for_supervisors(self, token: str) -> None:
        import fcntl

        from twoarm.run.supervisor.processes import wake_supervisors

        lock = self._supervisors()
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
                    wake_supervisors(token)
                    time.sleep(0.02)
        finally:
            os.close(lock)

    def release(self) -> None:
        """Let another runner have it."""
        for descriptor in (self._lock, self._journal):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._journal = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    # The journal.

    def say(self, event: str, **fields: Any) -> None:
        """One event: one line, one write, on the disk when this returns."""
        self.mention(event, **fields)
        assert self._journal is not None
        os.fsync(self._journal)

    def mention(self, event: str, **fields: Any) -> None:
        """An event that something else on the disk shows as well; it may wait for the next one."""
        if self._journal is None:
            self._journal = self.folder.open_own("journal.jsonl", append=True)
            size = os.fstat(self._journal).st_size
            # The power failed, or the disk was full, while a line was written.
            if size and os.pread(self._journal, 1, size - 1) != b"\n":
                os.write(self._journal, b"\n")
        line = msgspec.json.encode({"at": round(time.time(), 3), "event": event, **fields})
        os.write(self._journal, line + b"\n")

    def doubt(self, trials: list[str], name: str = DOUBTS) -> None:
        """Remember that runs may have started from trees that somebody had changed."""
        started = {run.trial.id: run.started for run in self.runs() if run.trial.id in trials}
        if started:
            self.folder.write(name, msgspec.json.encode(self._doubts(name) | started))

    def doubtful(self, name: str = DOUBTS) -> list[str]:
        """The trials whose runs are in doubt, and were not made again since."""
        doubts = self._doubts(name)
        return [run.trial.id for run in self.runs() if doubts.get(run.trial.id) == run.started]

    def _doubts(self, name: str) -> dict[str, str]:
        """When each of them was started."""
        if self.folder.look(name) is None:
            return {}
        return self._read(name, msgspec.json.Decoder(dict[str, str]).decode)

    def since_whole(self) -> dict[str, str | None]:
        """The trials that were run since the trees were last seen to be whole, and where: on a
        node, or here."""
        begun: dict[str, str | None] = {}
        if self.folder.look("journal.jsonl") is None:
            return {}
        for line in self.folder.read("journal.jsonl").splitlines():
            try:
                told = _TOLD.decode(line)
            except ValueError:
                # Half a line, from when the power failed.
                continue
            if told.event == WHOLE:
                begun.clear()
            elif told.event == BEGUN and told.attempt is not None:
                begun[told.attempt] = told.node
        return {run.trial.id: begun[run.id] for run in self.runs() if run.id in begun}

    # Attempts.

    def begin(self, attempted: Attempted) -> None:
        """Make the folder of an attempt, with what it may cost on the disk before it starts."""
        above, name = self.folder.parent_of(f".attempts/{attempted.id}", make=True)
        with above:
            # A runner was killed before it wrote what follows, or somebody has laid a trap.
            above.remove(name)
            with above.made(name) as folder:
                folder.write(TRIAL, _pretty(attempted))

    def attempt(self, attempted: Attempted) -> OpenFolder:
        """The folder of an attempt, to be closed."""
        return self.folder.within(f".attempts/{attempted.id}", make=True)

    def folder_of(self, attempted: Attempted) -> str:
        """Where an attempt is, until it is published."""
        return self.at(f".attempts/{attempted.id}")

    def run_of(self, trial: Trial) -> str:
        """Where the run of a trial is, once it is done."""
        return self.at("runs", trial.id)

    def record(self, attempted: Attempted) -> None:
        """What became of an attempt."""
        with self.attempt(attempted) as folder:
            folder.write(TRIAL, _pretty(attempted))
            folder.remove(OUTCOME)

    def publish(self, attempted: Attempted) -> None:
        """The one step that makes a trial done; lost with the power, it is repeated by a resume."""
        source, name = self.folder.parent_of(f".attempts/{attempted.id}")
        with source, self.folder.within(f"runs/{attempted.arm}", make=True) as runs:
            if runs.look(attempted.trial.name) is not None:
                # Half of a folder that somebody has removed; a run would have been known.
                runs.rename(attempted.trial.name, source, f"{name}.aside-{os.urandom(4).hex()}")
            source.rename(name, runs, attempted.trial.name)

    def check_whole(self, run: Attempted) -> None:
        """Refuse a run whose files are not what they were: the power may have failed."""
        path = self.run_of(run.trial)
        with self.folder.within(f"runs/{run.trial.id}") as folder:
            for name, size in run.facts.get("files", {}).items():
                length = folder.size(name)
                if length != size:
                    raise InputError(
                        f"{visible(os.path.join(path, name))}: {length:,} bytes, and {size:,} when "
                        f"the run was published; put it back, or remove {visible(path)} to run "
                        "that trial again"
                    )

    def attempts(self) -> Iterator[Attempted]:
        """Everything that was ever started and not published."""
        yield from self._attempted(".attempts")

    def runs(self) -> Iterator[Attempted]:
        """Every trial that is done."""
        yield from self._attempted("runs")

    def _attempted(self, root: str) -> Iterator[Attempted]:
        for arm in self._folders(root):
            for path in self._folders(arm):
                try:
                    with self.folder.within(path) as folder:
                        attempted = _ATTEMPTED.decode(folder.read(TRIAL))
                except FileNotFoundError:
                    # Killed between making the folder and writing into it: nothing was started.
                    continue
                except (OSError, ValueError) as error:
                    reason = error.strerror if isinstance(error, OSError) else str(error)
                    message = f"{visible(self.at(path))}/{TRIAL}: {visible(str(reason))}"
                    raise InputError(message) from error
                if path not in (f".attempts/{attempted.id}", f"runs/{attempted.trial.id}"):
                    raise InputError(
                        f"{visible(self.at(path))}/{TRIAL}: of another trial, "
                        f"{visible(shortened(attempted.id, 60))}; put the folder back where it was"
                    )
                yield attempted

    def _folders(self, path: str) -> list[str]:
        try:
            with self.folder.within(path) as folder:
                return [f"{path}/{name}" for name in folder.names() if folder.is_folder(name)]
        except FileNotFoundError:
            return []


def read_outcome(folder: OpenFolder) -> dict[str, Any]:
    """What a supervisor says of its attempt; FileNotFoundError if it did not finish."""
    try:
        told: dict[str, Any] = marshal.loads(folder.read(OUTCOME))
    except (EOFError, ValueError, TypeError) as error:
        # Half a file, after the power failed, is as good as none.
        raise FileNotFoundError(errno.ENOENT, str(error), folder.at(OUTCOME)) from error
    return told


def _pretty(document: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def unwritable(path: str, error: OSError) -> OutputError:
    """The error of a folder that takes no more; nothing that was in it is lost."""
    full = "; make room, then use --resume" if error.errno == errno.ENOSPC else ""
    return OutputError(f"{visible(path)}: cannot be written: {error.strerror}{full}")
