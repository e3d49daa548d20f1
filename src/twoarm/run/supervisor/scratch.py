"""The folders and files of one attempt, each by a descriptor that no path can redirect.

`box` is all that the agent sees and may write to; `own` is the supervisor's. Standard library only,
for the supervisor.
"""

import os

from twoarm.files.safe import OpenFolder, find, same_place
from twoarm.run.supervisor.isolation import Bubblewrapped, CleansUp, Contained, InTheOpen
from twoarm.run.supervisor.process_limit import ProcessLimit
from twoarm.run.supervisor.processes import Lifeline, Steps, call
from twoarm.run.supervisor.program import CLEAN_GIT, COPY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exit code of a shell's `timeout`, for a command that took too long.
TIMED_OUT = 124
# In the HOME of acceptance, which is made when the agent is gone: none can know its path.
SCORE = "score"
_GIT_SECONDS = 60.0
_GIT = (
    *("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"),
    *("-c", "core.attributesFile=/dev/null", "-c", "protocol.allow=never"),
)
_GIT_ENV = CLEAN_GIT | {"GIT_ATTR_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1"}


class RunningAttempt:
    """Where one attempt runs, and what is kept of it."""

    def __init__(
        self,
        job: "dict[str, Any]",
        lifeline: Lifeline,
        above: OpenFolder,
        process_limit: ProcessLimit,
    ) -> None:
        self.job = job
        self.process_limit = process_limit
        # From now on, whatever becomes of its path.
        self.folder = OpenFolder(job["folder"])
        self._above, self._name = above, os.path.basename(job["scratch"])
        os.mkdir(self._name, 0o700, dir_fd=above.descriptor)
        self.scratch = above.enter(self._name)
        self.box, self.own = self.scratch.made("box"), self.scratch.made("own")
        self.home, self.temporary = self.box.made("home"), self.box.made("tmp")
        self.work = self.box.made("work")
        self._out = self.own.made("out")
        # For acceptance, made when the agent is gone.
        self.clean_home: OpenFolder | None = None
        self.steps = Steps(lifeline, job["marker"], job["grace_seconds"])
        # By the name under which each is kept.
        self.kept: dict[str, int] = {}
        self._noise = self._out.create("noise", 0o600, append=True)

    def log(self, name: str) -> int:
        """A file that is kept under this name."""
        if name not in self.kept:
            self.kept[name] = self._out.create(name, 0o600, append=True)
        return self.kept[name]

    def drop(self, name: str) -> None:
        """Keep no such file after all."""
        os.close(self.kept.pop(name))

    def env(self, kind: str) -> "dict[str, str]":
        """The variables of set-up, agent or acceptance: built from nothing."""
        home, temporary = self.home.path, self.temporary.path
        score = {}
        if kind == "acceptance":
            assert self.clean_home is not None
            home = self.clean_home.path
            temporary = os.path.join(home, "tmp")
            score = {"TWOARM_SCORE": os.path.join(home, SCORE)}
        own = {"HOME": home, "TMPDIR": temporary, **score}
        # A git that finds no repository in the workspace must not find somebody else's above it.
        return {**self.job["env"][kind], **own, "GIT_CEILING_DIRECTORIES": self.box.path}

    def isolated(self, kind: str) -> InTheOpen:
        """What a step runs in: it writes to its own folders alone, and acceptance to none of the
        agent's but the workspace."""
        seal = self.job["seal"]
        if not seal["words"]:
            asked = self.job["stop_signal"]
            own = kind == "agent" and asked != InTheOpen.stop_signal
            return CleansUp(asked) if own else InTheOpen()
        written = [self.work.path, self.home.path, self.temporary.path]
        read = []
        if kind == "acceptance":
            assert self.clean_home is not None
            written = [self.work.path, self.clean_home.path]
            # Before what is written to in it.
            read = [self.box.path]
        words, last = list(seal["words"][kind]), seal["last"][kind]
        if seal["isolation"] == "bwrap":
            binds = [("--ro-bind", path) for path in read] + [("--bind", path) for path in written]
            words += [word for how, path in binds for word in (how, path, path)]
            return Bubblewrapped(words, last, self.work.path)
        mounts = [f"{path}:{path}:ro" for path in read] + [f"{path}:{path}" for path in written]
        words += [word for mount in mounts for word in ("-v", mount)]
        words += ["-w", self.work.path, seal["image"]]
        return Contained(words, self.job["marker"], self.own, seal["path"], call)

    def shell(self, command: str, kind: str, log: str, seconds: float) -> "tuple[int, str]":
        """One shell command in the workspace."""
        argv = ["/bin/sh", "-c", command]
        at = self.work.descriptor
        streams = (None, self.log(log), None)
        code, why, _ = self.steps.run(
            argv, self.env(kind), at, streams, seconds, isolation=self.isolated(kind)
        )
        return (TIMED_OUT if why == "timeout" else code), why

    def git(
        self,
        arguments: "tuple[str, ...]",
        variables: "dict[str, str]",
        at: OpenFolder,
        given: int | None = None,
        told: int | None = None,
    ) -> int:
        """One command of git, with nobody's settings; its exit code."""
        code, _, _ = self.steps.run(
            [*_GIT, *arguments],
            {"PATH": self.job["path"], "LANG": "C", **_GIT_ENV, **variables},
            at.descriptor,
            (given, self._noise if told is None else told, self._noise),
            _GIT_SECONDS,
        )
        return code

    def copy(self, source: str, folder: OpenFolder, name: str) -> None:
        """A file or a tree, as it is, to a name in a folder."""
        folder.remove(name)
        before = os.fstat(self._noise).st_size
        env = {"PATH": self.job["path"], "LANG": "C"}
        code, _, _ = self.steps.run(
            [*COPY, source, f"./{name}"],
            env,
            folder.descriptor,
            (None, self._noise, None),
            self.job["setup_seconds"],
        )
        if code:
            reason = os.pread(self._noise, 300, before).decode("utf-8", "replace").strip()
            # A full disk has no room for what `cp` says of it.
            there = os.fstatvfs(folder.descriptor)
            free = f"{there.f_bavail * there.f_frsize >> 20} MB free"
            message = f"cannot copy {source} to {folder.at(name)}: {reason or 'cp failed'}; {free}"
            raise OSError(code, message)

    def fresh_home(self) -> None:
        """The agent starts with a HOME that no set-up has touched."""
        self.home.close()
        self.box.remove("home")
        self.home = self.box.made("home")
        for path, text in self.job["home_texts"].items():
            folder, name = self.home.parent_of(path, make=True)
            with folder, open(folder.create(name), "wb") as file:
                file.write(text.encode())
        for path, source in self.job["home_files"].items():
            folder, name = self.home.parent_of(path, make=True)
            with folder:
                self.copy(source, folder, name)

    def own_work(self) -> None:
        """A workspace that is a folder in its place, whatever the agent put there."""
        if not same_place(self.box, "work", self.work):
            self.work.close()
            self.box.remove("work")
            self.work = self.box.made("work")

    def keep_files(self) -> None:
        """The files of HOME that are kept, and the counts that a command may have left."""
        self._keep(self.temporary, "usage.json", "usage.json")
        for pattern, name in self.job["keep"].items():
            files = []
            for path in find(self.home, pattern):
                folder, last = self.home.parent_of(path)
                with folder:
                    written = folder.look(last)
                    files.append((written.st_mtime_ns if written else 0, path))
            if files:
                folder, last = self.home.parent_of(max(files)[1])
                with folder:
                    self._keep(folder, last, name)

    def _keep(self, folder: OpenFolder, name: str, kept: str) -> None:
        try:
            descriptor = folder.open(name)
        except OSError:
            # A link, a pipe or a folder is not something that was written down.
            return
        if kept in self.kept:
            self.drop(kept)
        self.kept[kept] = descriptor

    def clear(self) -> None:
        """Leave nothing of it on the disk."""
        self._above.remove(self._name)
