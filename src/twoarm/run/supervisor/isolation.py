"""What one step of an attempt runs in: the open, a sandbox of bubblewrap, or a container.

What is the same for every attempt comes with the job, as words of a command line; what is the
attempt's own is added here. Standard library only, for the supervisor.
"""

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from twoarm.files.safe import OpenFolder

# What every container of a run is found by, and those of one attempt.
RUN_LABEL, ATTEMPT_LABEL = "twoarm.run", "twoarm.attempt"
# The state of a container whose engine is gone.
_UNKNOWN = "unknown"
# What podman's helper leaves where it was started, if there was no more memory.
_NO_MEMORY = "oom"
# What is started instead of what an image starts by itself; the words of a shell follow the image.
AS_SHELL = ("--entrypoint", "/bin/sh")
# The variables come in a file: what is told to an engine stays in its database.
_WITH_VARIABLES = '. "$0" && exec "$@"'


class IsolationError(Exception):
    """What a step should run in did not start, or was taken away: the agent has no part in it."""


class InTheOpen:
    """Nothing holds the step back."""

    # How long processes of others, which end by themselves, are waited for.
    linger_seconds = 0.0
    # Whether whoever is left when a step has ended can still be seen.
    shows_leftovers = True
    # What asks the step to end.
    stop_signal: int = signal.SIGTERM
    # The folder that it is started in, by a descriptor, if that is not the step's own.
    at: int | None = None
    # Whether the kernel killed somebody in it for the memory that the suite allows.
    out_of_memory = False

    def command(
        self, argv: "list[str]", env: "dict[str, str]"
    ) -> "tuple[list[str], dict[str, str]]":
        """What is started for a step, and its variables."""
        return argv, env

    def terminate(self, pid: int, below: "list[int]") -> None:
        """Ask the step to end; `below` is every process of the attempt."""
        send(-pid, self.stop_signal)

    def ended(self, code: int | None, stopped: bool = False) -> None:
        """Leave nothing of it; see that an exit code was the step's own, and that what was stopped
        had begun."""


class CleansUp(InTheOpen):
    """A step that has made what only it can remove: it is asked to, whoever ends it."""

    def __init__(self, stop_signal: int) -> None:
        self.stop_signal = stop_signal


class Bubblewrapped(InTheOpen):
    """A sandbox with processes of its own, in which little can be seen and less written to."""

    # The first process inside ends right after the sandbox.
    linger_seconds = 0.1
    shows_leftovers = False

    def __init__(self, words: "list[str]", last: "list[str]", at: str) -> None:
        from twoarm.run.supervisor.seccomp import call_filter

        # How far bubblewrap came, and the calls that are refused: without names, and for the one
        # program that is started before both are closed.
        self._status = os.memfd_create("status", 0)
        self._calls = os.memfd_create("calls", 0)
        calls = call_filter()
        os.pwrite(self._calls, calls, 0)
        self._words = [
            *(*words, *last, "--remount-ro", "/", "--chdir", at),
            *("--json-status-fd", str(self._status)),
            *(("--seccomp", str(self._calls)) if calls else ()),
            "--",
        ]

    def command(
        self, argv: "list[str]", env: "dict[str, str]"
    ) -> "tuple[list[str], dict[str, str]]":
        """The sandbox, and the step in it."""
        return [*self._words, *argv], env

    def terminate(self, pid: int, below: "list[int]") -> None:
        """Everybody inside; without the sandbox itself, which would take them with it at once."""
        for each in below:
            if each != pid:
                send(each, signal.SIGTERM)

    def ended(self, code: int | None, stopped: bool = False) -> None:
        """An exit code is told on the descriptor only if the step was started."""
        told = os.pread(self._status, 4096, 0)
        os.close(self._status)
        os.close(self._calls)
        if code is not None and b'"exit-code"' not in told:
            raise IsolationError("the sandbox did not start")
        if stopped and b'"child-pid"' not in told:
            raise IsolationError("the sandbox did not start in time")


class Contained(InTheOpen):
    """A container, by the client of its engine."""

    # Whoever cleans up after a container holds locks that others wait for.
    linger_seconds = 2.0
    shows_leftovers = False

    def __init__(
        self,
        words: "list[str]",
        marker: str,
        own: "OpenFolder",
        path: str,
        call: "Callable[[list[str]], tuple[int, str]]",
    ) -> None:
        self._engine, self._own, self._path, self._call = words[0], own, path, call
        # Whoever watches over a container writes where it was started: out of the agent's reach.
        self.at = own.descriptor
        self._name = f"twoarm-{marker}-{os.urandom(4).hex()}"
        self._variables = f"variables-{os.urandom(4).hex()}"
        file = own.at(self._variables)
        *options, image = words[1:]
        self._words = [
            *(self._engine, *options, "--name", self._name),
            *("--label", f"{ATTEMPT_LABEL}={marker}", "-v", f"{file}:{file}:ro"),
            *(*AS_SHELL, image, "-c", _WITH_VARIABLES, file),
        ]

    def command(
        self, argv: "list[str]", env: "dict[str, str]"
    ) -> "tuple[list[str], dict[str, str]]":
        """The client with variables of its own; those of the step are in a file inside."""
        import shlex

        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in env.items()]
        if self._path:
            lines.append(f'export PATH={shlex.quote(self._path)}:"$PATH"\n')
        with open(self._own.create(self._variables, 0o644), "wb") as file:
            file.write(os.fsencode("".join(lines)))
        return [*self._words, *argv], dict(os.environ)

    def terminate(self, pid: int, below: "list[int]") -> None:
        """The client hands it on."""
        send(pid, signal.SIGTERM)

    def ended(self, code: int | None, stopped: bool = False) -> None:
        """The container goes, whatever has become of its client."""
        state, own = "exited", code
        if code or stopped:
            # Any of them may be the client's own: docker's has 1 for what it could not start.
            state, own = self._state()
        if self._own.look(_NO_MEMORY) is not None:
            self.out_of_memory = True
            self._own.remove(_NO_MEMORY)
        gone, _ = self._call(remove := [self._engine, "rm", "-f", "-v", self._name])
        if gone:
            # The first has only stopped what nobody watched over any more.
            self._call(remove)
        self._own.remove(self._variables)
        if state == _UNKNOWN:
            raise IsolationError("the engine of the container does not answer")
        if state in ("", "created", "configured", "initialized"):
            raise IsolationError("the container did not start" + (" in time" if stopped else ""))
        if stopped:
            return
        if state not in ("exited", "stopped", "dead") or own != code:
            why = f"the client of the container was killed, or failed (exit code {code})"
            raise IsolationError(why)

    def _state(self) -> "tuple[str, int | None]":
        """What the engine says of the container, and its exit code; nothing if there is none."""
        asked = "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}"
        code, told = self._call([self._engine, "inspect", "--format", asked, self._name])
        state, own, killed = (*told.split(), "", "", "")[:3]
        if not code and own.isdigit():
            self.out_of_memory = killed == "true"
            return state, int(own)
        silent, _ = self._call([self._engine, "ps", "-q"])
        return (_UNKNOWN if silent else ""), None


def send(pid: int, number: int) -> None:
    """Signal a process, or with a negative number its group, unless it is gone or not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
