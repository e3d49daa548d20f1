"""Processes of an attempt: each step in a session of its own, and no process left after any.

Standard library only: the supervisor is started with `-I -S`, so that it is up in milliseconds.
"""

import ctypes
import errno
import os
import select
import signal
import sys
import time

from twoarm.run.supervisor.isolation import CleansUp, InTheOpen, IsolationError, send
from twoarm.run.supervisor.program import NOT_EXECUTABLE, NOT_FOUND, find_on

_SUBREAPER = 36
_PARENT_DIED = 1
# A child must not ignore what this program, Python, or a script that started it ignores.
_DEFAULTS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_POLL_SECONDS = 0.1
_SWEEP_SECONDS = 30.0
# How long the client of an engine may take.
_CLIENT_SECONDS = 60.0
# Whoever named such a program has to answer for it.
_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
# The variable of a supervisor that holds the marker of its attempt.
SUPERVISOR = "TWOARM_SUPERVISOR"
# How a step ended whose program could not be started.
NOT_STARTED = "not started"
# How much is read of what a sandbox or an engine says when it does not start.
_TOLD_BYTES = 4096
# What a shell adds to the number of the signal that ended a process.
_SIGNALLED = 128
_KILLED = _SIGNALLED + signal.SIGKILL


class Cancelled(BaseException):
    """The runner is gone, or wants no more."""


class Lifeline:
    """The pipe from the runner, whose end is its end, and the wake-up when a child ends."""

    def __init__(self) -> None:
        self.word = ""
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Wait until a child ends, the runner says something, or the time is up."""
        ready, _, _ = select.select([0, self._woken], [], [], max(0.0, seconds))
        if self._woken in ready:
            os.read(self._woken, 4096)
        if 0 in ready:
            message = os.read(0, 4096)
            if not message:
                raise Cancelled
            self.word = message.decode("ascii", "replace").strip()


def detach() -> None:
    """Be ended by nobody but the runner, share nothing, and be the parent of all orphans below."""
    # Whoever started us may have blocked what tells that a child has ended.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The lock that says it lives: an agent that had it too would seem to be a supervisor.
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                # The one that the listing itself had open.
                continue
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_SUBREAPER, 1, 0, 0, 0)
        # An agent may have stopped us; when the runner dies, nobody else would wake us up.
        prctl(_PARENT_DIED, signal.SIGCONT, 0, 0, 0)


def _reap() -> bool:
    """Reap the children that have ended; False if there are none, ended or not."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def _parents() -> dict[int, int]:
    """The parent of every process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name of a program is in parentheses, and may hold some.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return parents


def _marked(marker: str) -> list[int]:
    """Processes with the marker in their environment, where there is no /proc to ask."""
    with os.popen("ps -axEww -o pid=,command=") as listing:
        lines = [line.split(None, 1) for line in listing]
    mine = os.getpid()
    return [
        int(line[0])
        for line in lines
        if len(line) == 2 and f"TWOARM_TRIAL={marker}" in line[1] and int(line[0]) != mine
    ]


def descendants(marker: str) -> list[int]:
    """Every process that this one is responsible for."""
    if not os.path.isdir("/proc/self"):
        return _marked(marker)
    parents = _parents()
    tree = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sorted(tree - {os.getpid()})


def _command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(200).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def kill_marked(marker: str) -> None:
    """Kill processes whose supervisor was killed itself, until none is left that can be."""
    deadline = time.monotonic() + _SWEEP_SECONDS
    while (pids := _survivors(marker)) and time.monotonic() < deadline:
        for pid in pids:
            send(pid, signal.SIGKILL)
        time.sleep(0.002)


def wake_supervisors(token: str) -> None:
    """Let supervisors that an agent has stopped see that their runner is gone."""
    wanted = f"{SUPERVISOR}={token}-".encode()
    for pid in _parents() if os.path.isdir("/proc/self") else ():
        if wanted in _environment_of(pid):
            send(pid, signal.SIGCONT)


def _survivors(marker: str) -> list[int]:
    if not os.path.isdir("/proc/self"):
        return _marked(marker)
    wanted = b"TWOARM_TRIAL=" + marker.encode()
    return [pid for pid in _parents() if wanted in _environment_of(pid)]


def _environment_of(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def sweep(marker: str) -> list[str]:
    """Kill whatever is left until nothing is; the commands of those that were still there.

    A process that cannot be killed, since it is another user's or hangs in the kernel, is given up.
    """
    killed: dict[int, str] = {}
    deadline = time.monotonic() + _SWEEP_SECONDS
    while _reap() or not os.path.isdir("/proc/self"):
        left = descendants(marker) if time.monotonic() < deadline else []
        if not left:
            # Children that ended meanwhile are taken by the next look.
            if not _reap() or time.monotonic() >= deadline:
                break
            continue
        for pid in left:
            killed.setdefault(pid, _command_of(pid))
            send(pid, signal.SIGKILL)
        time.sleep(0.002)
    return sorted({name for name in killed.values() if name})


def call(argv: list[str]) -> tuple[int, str]:
    """The exit code of a client of an engine and what it prints, whatever the runner wants."""
    told = os.memfd_create("told")
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, told, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsigdef=_DEFAULTS)
    deadline = time.monotonic() + _CLIENT_SECONDS
    done = status = 0
    while not done:
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done and time.monotonic() > deadline:
            send(pid, signal.SIGKILL)
        time.sleep(0 if done else 0.005)
    text = os.pread(told, _TOLD_BYTES, 0).decode("utf-8", "replace")
    os.close(told)
    return os.waitstatus_to_exitcode(status), text


def _program(name: str, path: str) -> str:
    program = find_on(path, name)
    if program is None:
        raise FileNotFoundError(2, "no such program", name)
    return program


def _streams(
    given: int | None, output: int, errors: int
) -> "list[tuple[int, int, int] | tuple[int, int, str, int, int]]":
    """What the streams of a step are."""
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if given is None
        else (os.POSIX_SPAWN_DUP2, given, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, errors, 2),
    ]


class Steps:
    """Commands one after another, each in a session of its own, nothing left after any."""

    def __init__(self, lifeline: Lifeline, marker: str, grace: float) -> None:
        self.lifeline = lifeline
        self._marker = marker
        self._grace = grace
        self.leftovers: list[str] = []
        # Which program could not be started last, and why.
        self.refused = ""
        # Whether the step has been asked to end: asked twice, some do not clean up.
        self._asked = False

    def run(
        self,
        argv: list[str],
        env: dict[str, str],
        at: int,
        streams: tuple[int | None, int, int | None],
        seconds: float,
        most: int | None = None,
        isolation: "InTheOpen | None" = None,
    ) -> tuple[int, str, float]:
        """Exit code, how it ended and the seconds it took; folder and streams are descriptors.

        No standard input is an empty one, and no standard error goes to standard output. Only the
        agent has a limit on what it prints, and only the agent is stopped by a word.
        """
        isolation = isolation or InTheOpen()
        given, output, errors = streams
        files = [output] if errors is None else [output, errors]
        before = os.fstat(files[-1]).st_size
        argv, env = isolation.command(argv, env)
        os.fchdir(at if isolation.at is None else isolation.at)
        started = time.monotonic()
        try:
            pid = os.posix_spawn(
                _program(argv[0], env.get("PATH", "")),
                argv,
                {**env, "TWOARM_TRIAL": self._marker},
                file_actions=_streams(given, output, files[-1]),
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULTS,
            )
        except OSError as error:
            if error.errno not in _NO_PROGRAM:
                # Arguments that are too long, or a machine that has no more processes to give.
                raise
            if type(isolation) is not InTheOpen:
                raise IsolationError(f"{argv[0]}: {error.strerror}") from None
            self.refused = f"{argv[0]}: {error.strerror}"
            os.write(files[-1], f"{argv[0]}: cannot be started: {error.strerror}\n".encode())
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return code, NOT_STARTED, 0.0
        try:
            why, status = self._watched(pid, started + seconds, files, most, isolation)
        except BaseException:
            self._clean_up(pid, isolation)
            self._end(isolation, None)
            raise
        ended = time.monotonic()
        code = os.waitstatus_to_exitcode(status)
        code = _SIGNALLED - code if code < 0 else code
        return code, self._left(isolation, code, why, files[-1], before), ended - started

    def _left(self, isolation: InTheOpen, code: int, why: str, errors: int, before: int) -> str:
        """How a step ended, once nobody is left of it; what it printed begins somewhere."""
        try:
            left = self._end(isolation, code if why == "exit" else None, stopped=why != "exit")
        except IsolationError as error:
            told = os.pread(errors, _TOLD_BYTES, before).decode("utf-8", "replace")
            last = told.strip().rpartition("\n")[2]
            raise IsolationError(f"{error}: {last}" if last else str(error)) from None
        if why == "exit" and isolation.shows_leftovers:
            self.leftovers += left
        if why == "exit" and code == _KILLED and isolation.out_of_memory:
            return "memory"
        return why

    def _end(self, isolation: InTheOpen, code: int | None, *, stopped: bool = False) -> list[str]:
        """Nobody is left behind, even if the runner is gone."""
        try:
            isolation.ended(code, stopped)
            deadline = time.monotonic() + isolation.linger_seconds
            while time.monotonic() < deadline and _reap():
                time.sleep(0.0001)
        finally:
            left = sweep(self._marker)
        return left

    def _watched(
        self, pid: int, deadline: float, files: list[int], most: int | None, isolation: InTheOpen
    ) -> tuple[str, int]:
        """Wait for the end, or bring it about."""
        why, self._asked = "", False
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return why or "exit", status
            left = deadline - time.monotonic()
            if most is not None and any(os.fstat(file).st_size > most for file in files):
                why = "output"
            elif most is not None and self.lifeline.word == "budget":
                why = "budget"
            elif left <= 0:
                why = "timeout"
            if why:
                return why, self._stopped(pid, isolation)
            self.lifeline.wait(min(left, _POLL_SECONDS) if most is not None else left)

    def _clean_up(self, pid: int, isolation: InTheOpen) -> None:
        """Nobody waits for the step any more, and it has its grace all the same."""
        if not isinstance(isolation, CleansUp):
            return
        if not self._asked:
            isolation.terminate(pid, [])
        deadline = time.monotonic() + self._grace
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.02)

    def _stopped(self, pid: int, isolation: InTheOpen) -> int:
        """SIGTERM, a while to obey, SIGKILL."""
        self._asked = True
        isolation.terminate(pid, descendants(self._marker))
        deadline = time.monotonic() + self._grace
        while (left := deadline - time.monotonic()) > 0:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            self.lifeline.wait(left)
        send(-pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]
