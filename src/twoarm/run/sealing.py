"""From a suite and an isolation to what the steps of an attempt run in."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from twoarm.errors import InputError
from twoarm.run.jobs import Seal
from twoarm.run.schedule import task_keys
from twoarm.run.shown import (
    Layer,
    absolute_in,
    holds,
    keys_in,
    layers,
    led_out,
    lies,
    may_grade,
    named_in,
    program_trees,
    secrets,
    sees,
    system_folders,
)
from twoarm.run.suite import SuiteTask
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.isolation import RUN_LABEL
from twoarm.run.supervisor.process_limit import MOST_PROCESSES
from twoarm.run.tree import repository_of
from twoarm.text.escape import visible

CONTAINERS = ("podman", "docker")
KINDS = ("setup", "agent", "acceptance")
# What root may do with files inside, as it may outside; everything else is taken away.
_OF_FILES = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
# The digest of an image, in a schedule.
WORKSPACE_IMAGE = "workspace.image"
# Is there where the system has cgroups v2.
_CGROUPS_V2 = "/sys/fs/cgroup/cgroup.controllers"
# The words of bubblewrap on both sides of the folders of an attempt.
_BeforeAndAfter = tuple[tuple[str, ...], tuple[str, ...]]


class Sealer(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Makes what steps run in: the same for every attempt of a task in an arm."""

    checked: CheckedSuite
    isolation: str
    # bubblewrap, or the client of the engine.
    tool: str
    # The agent's own, if it is a file of this machine.
    program: str | None
    # Of programs on this machine.
    path: str
    # The ids of images, by their keys.
    images: Mapping[str, str]
    # What every container is found by.
    token: str
    # The run folder, the cache and HOME.
    kept_back: tuple[str, ...]

    @property
    def contained(self) -> bool:
        """Whether steps run in containers."""
        return self.isolation in CONTAINERS

    def for_agent(self, task: str, build: str, texts: Iterable[str], arm: str = "") -> Seal:
        """What a trial runs in; its agent may read what its own command line names, or that of
        its arm; where there is no arm, that of any."""
        if self.isolation == "copy":
            return Seal()
        builds = [build] if build else []
        reads = {
            "agent": [*self._agent_reads(texts, arm), *builds],
            # What setup of an arm has linked into the workspace may be in its build.
            "acceptance": [*self._acceptance_reads(task), *builds],
        }
        if any(arm.setup_commands for arm in self.checked.arms.values()):
            reads["setup"] = [*self._setup_reads(), *builds]
        return self._seal(
            task,
            reads,
            path=os.pathsep.join((os.path.join(build, "bin"), build)) if build else "",
        )

    def for_setup(self, task: str | None, made: str = "") -> Seal:
        """What the steps before the first trial run in: in the open, unless there is an image.

        A build may write to the folder that is made of it.
        """
        if not self.contained:
            return Seal()
        seal = self._seal(task, {"setup": self._setup_reads()})
        if not made:
            return seal
        words = {kind: (*words, "-v", f"{made}:{made}") for kind, words in seal.words.items()}
        return msgspec.structs.replace(seal, words=words)

    def for_acceptance(self, task: str) -> Seal:
        """What acceptance of an untouched workspace runs in."""
        return self._seal(task, {"acceptance": self._acceptance_reads(task)})

    def _setup_reads(self) -> list[str]:
        checked = self.checked
        commands = [*checked.workspace.setup_commands]
        commands += [text for task in checked.tasks for text in task.setup_commands]
        commands += [text for arm in checked.arms.values() for text in arm.setup_commands]
        return self._suite(map(checked.in_shell, commands))

    @property
    def _variables(self) -> list[str]:
        """What variables of every step say."""
        return [*self.checked.workspace.env.values()]

    def _agent_reads(self, texts: Iterable[str], arm: str) -> list[str]:
        """What its command line and its variables name: of the suite, and by whole paths what the
        suite says of them."""
        named = [*self._words(arm), *self._variables]
        return [*self._beside(texts), *self._elsewhere(named, self._hidden)]

    def _words(self, arm: str) -> list[str]:
        """What the suite says of how an agent is started."""
        agent, arms = self.checked.agent, self.checked.arms
        words = [*agent.argv, *agent.args, *agent.env.values()]
        for each in [arms[arm]] if arm else arms.values():
            words += [*each.args, *each.env.values()]
        return words

    def readable_graders(self) -> list[str]:
        """What acceptance commands name that agents see all the same."""
        if self.isolation == "copy":
            return []
        seen: list[str] = []
        if not self.contained:
            seen, _, _ = self._machine
        templates = [arm.prompt_template or "" for arm in self.checked.arms.values()]
        words = [*self._words(""), *templates]
        words = [word.replace("{suite}", self.checked.shown) for word in words] + self._variables
        shown = layers([*seen, *self._mounts, *self._agent_reads(words, "")], self._hidden)
        tasks = self.checked.tasks
        graders = [text for task in tasks for text in self._graders(task)]
        named = self._elsewhere(graders, self._really_kept_back)
        own = {path for task in tasks for path in self.checked.graders(task)}
        return sorted(path for path in {*filter(may_grade, named), *own} if sees(shown, path))

    def _graders(self, task: SuiteTask) -> list[str]:
        return list(self.checked.acceptance(task).values())

    def _acceptance_reads(self, task: str) -> list[str]:
        tasks = [each for each in self.checked.tasks if each.id == task]
        return self._suite(text for each in tasks for text in self._graders(each))

    def _seal(self, task: str | None, reads: Mapping[str, Sequence[str]], path: str = "") -> Seal:
        if self.isolation == "copy":
            return Seal()
        if self.contained:
            return Seal(
                isolation=self.isolation,
                words={kind: tuple(self._container(kind, reads[kind])) for kind in reads},
                last=dict.fromkeys(reads, ()),
                image=self.image(task),
                path=path,
            )
        pairs = {kind: self._sandbox(kind, tuple(reads[kind])) for kind in reads}
        return Seal(
            isolation=self.isolation,
            words={kind: words for kind, (words, _) in pairs.items()},
            last={kind: last for kind, (_, last) in pairs.items()},
        )

    def image(self, task: str | None) -> str:
        """The image of a task, by its id."""
        own = self.images.get(task_keys(task)[1]) if task is not None else None
        return own or self.images.get(WORKSPACE_IMAGE, "")

    @cached_property
    def _of_suite(self) -> list[str]:
        """The suite and its sources, links followed; with a work tree, the repository that it is
        of."""
        checked, place = self.checked, self.checked.workspace
        sources = [arm.source.repo for arm in checked.arms.values() if arm.source is not None]
        repos = [checked.at(path) for path in (place.repo, *sources) if path]
        paths = [*repos, *map(repository_of, filter(os.path.isdir, repos))]
        if place.copy is not None:
            paths.append(checked.at(place.copy))
        if checked.suite.tasks_from is not None:
            paths.append(checked.at(checked.suite.tasks_from))
        every = [checked.folder, checked.shown, *paths]
        # The folder may have no more than a link to the suite in it.
        return list(dict.fromkeys(map(os.path.realpath, (*every, checked.path))))

    @cached_property
    def _hidden(self) -> list[str]:
        """What is kept back, the suite and its sources, links followed."""
        return list(dict.fromkeys((*self._really_kept_back, *self._of_suite)))

    @cached_property
    def _really_kept_back(self) -> list[str]:
        return list(dict.fromkeys(map(os.path.realpath, self.kept_back)))

    def _hidden_from(self, kind: str) -> list[str]:
        """What a step may not see in what is shown; the suite is whole for its own commands."""
        return self._hidden if kind == "agent" else self._really_kept_back

    def _suite(self, commands: Iterable[str]) -> list[str]:
        """What commands of the suite may read of it: all, unless the user's HOME is in it; and
        what they name elsewhere, be it by a link or from the suite."""
        suite, texts = self.checked.shown, [*commands, *self._variables]
        kept_back = self._really_kept_back
        named = self._not_kept_back(named_in(texts, suite))
        beside = (path for path in map(os.path.normpath, named) if not lies(path, suite))
        outside = [path for path in (*led_out(named, suite), *beside) if not holds(path, kept_back)]
        whole = named if self.holds_home else [suite]
        return [*whole, *outside, *self._elsewhere(texts, kept_back)]

    @property
    def holds_home(self) -> bool:
        """Whether the user's HOME is in the folder of the suite, or is that folder."""
        home, suite = self.kept_back[0], self.checked.shown
        return lies(home, suite) or lies(home, os.path.realpath(suite))

    def _beside(self, texts: Iterable[str]) -> list[str]:
        """What texts name in the folder of the suite, or from there; of the latter, nothing that
        holds what is kept back."""
        suite = self.checked.shown
        paths = self._not_kept_back(map(os.path.normpath, named_in(texts, suite)))
        return [path for path in paths if lies(path, suite) or not holds(path, self._hidden)]

    def _not_kept_back(self, paths: Iterable[str]) -> list[str]:
        """Without what is kept back itself: what is shown of it by name would be all of it."""
        return [path for path in paths if os.path.realpath(path) not in self._really_kept_back]

    def _elsewhere(self, texts: Iterable[str], hidden: Iterable[str]) -> list[str]:
        """What texts name by whole paths, and holds nothing that is hidden; in a container, these
        are of its image."""
        return [] if self.contained else absolute_in(texts, hidden)

    @cached_property
    def _mounts(self) -> list[str]:
        return [self.checked.shown_at(path) for path in self.checked.agent.mounts]

    @cached_property
    def _machine(self) -> tuple[list[str], list[str], dict[str, str]]:
        """What every sandbox shows of this machine, what it hides there, and its links with what
        they say."""
        folders, links = system_folders()
        trees = program_trees(self.path, self.program, self._hidden, self._of_suite)
        shown = [path for path in (*folders, *trees) if os.path.realpath(path) not in self._hidden]
        return shown, [*secrets(), *keys_in(trees)], links

    @cached_property
    def _sandboxes(self) -> dict[tuple[str, tuple[str, ...]], _BeforeAndAfter]:
        """Those made so far: most trials have the same two."""
        return {}

    def _sandbox(self, kind: str, reads: tuple[str, ...]) -> _BeforeAndAfter:
        """The words of bubblewrap before and after the folders of an attempt."""
        if (made := self._sandboxes.get((kind, reads))) is not None:
            return made
        shown, hidden, links = self._machine
        hidden = [*self._hidden_from(kind), *hidden]
        words: list[str] = []
        last: list[str] = []
        every = [*shown, *self._mounts, *reads]
        # A link of the system is there, and nothing can be put in its place.
        every = [
            os.path.realpath(path) if any(lies(path, link) for link in links) else path
            for path in every
        ]
        for path, layer in layers(every, hidden):
            words += {
                Layer.SHOWN: ("--ro-bind", path, path),
                Layer.EMPTY: ("--tmpfs", path),
                Layer.BLANK: ("--ro-bind", "/dev/null", path),
            }[layer]
            last += ("--remount-ro", path) if layer == Layer.EMPTY else ()
        root = os.geteuid() == 0
        caps = [word for name in _OF_FILES for word in ("--cap-add", f"CAP_{name}")]
        # Settings of the kernel belong to root, whatever it may do.
        kernel = ["--ro-bind", "/proc/sys", "/proc/sys"]
        offline = kind == "agent" and self.checked.agent.network == "none"
        before = (
            # Whoever kills its own group must not end the sandbox, and with it what it says.
            *(self.tool, "--die-with-parent", "--new-session"),
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *(("--unshare-net",) if offline else ()),
            *("--cap-drop", "ALL", *(caps if root else ())),
            *(word for link, text in links.items() for word in ("--symlink", text, link)),
            *("--dev", "/dev", "--proc", "/proc", *(kernel if root else ())),
            *("--tmpfs", "/tmp", "--symlink", "../tmp", "/var/tmp", "--dir", "/run"),
            *words,
        )
        self._sandboxes[kind, reads] = before, tuple(last)
        return before, tuple(last)

    def _container(self, kind: str, reads: Sequence[str]) -> list[str]:
        """The words of an engine before the folders of an attempt."""
        limits = self.checked.suite.limits
        words = [
            *(self.tool, "run", "--init", "--stop-timeout", "0", "--log-driver", "none"),
            *("--read-only", "--tmpfs", "/tmp", "--pull", "never", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            *("--label", f"{RUN_LABEL}={self.token}"),
        ]
        if os.geteuid() == 0:
            words += [word for name in _OF_FILES for word in ("--cap-add", name)]
        elif self.isolation == "podman":
            words += ["--userns", "keep-id"]
        else:
            words += ["--user", f"{os.getuid()}:{os.getgid()}"]
        if network := self._network(kind):
            words += ["--network", network]
        if limits.memory_mb is not None:
            words += ["--memory", f"{limits.memory_mb}m", "--memory-swap", f"{limits.memory_mb}m"]
        if limits.cpus is not None:
            words += ["--cpus", f"{limits.cpus:g}"]
        # Engines have limits of their own, or none.
        if limits.processes or not self._ignores_limits:
            words += ["--pids-limit", str(limits.processes or MOST_PROCESSES)]
        mounted = layers([*self._mounts, *reads], self._hidden_from(kind))
        check_mounts(path for path, _ in mounted)
        for path, layer in mounted:
            # What has no name is an empty volume, and goes with the container. An empty folder in
            # memory would be none: podman copies into it what it hides.
            words += {
                Layer.SHOWN: ("-v", f"{path}:{path}:ro"),
                Layer.EMPTY: ("-v", path),
                Layer.BLANK: ("-v", f"/dev/null:{path}:ro"),
            }[layer]
        return words

    @property
    def _ignores_limits(self) -> bool:
        """Whether all that podman does with a limit is to say in every log that it ignores it."""
        podman_of_a_user = self.isolation == "podman" and os.geteuid() != 0
        return podman_of_a_user and not os.path.exists(_CGROUPS_V2)

    def _network(self, kind: str) -> str | None:
        """Set-up has one, the agent what it was given, acceptance none unless it was asked for."""
        network = self.checked.agent.network
        if kind == "agent":
            return network
        if kind == "acceptance" and not self.checked.workspace.acceptance_network:
            return "none"
        return None if network == "none" else network


def check_mounts(paths: Iterable[str]) -> None:
    """Refuse paths that an engine would take for two."""
    for path in paths:
        if ":" in path:
            raise InputError(
                f"{visible(path)}: a path with a colon cannot be mounted into a container; "
                "choose another folder"
            )
