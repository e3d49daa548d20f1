"""Which isolation a run takes: the one that was asked for, or the best that works here."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import Agent
from twoarm.programs.harbor.launch import HarborAgent
from twoarm.programs.installed import Installed
from twoarm.run.engine import INTERPRETER, LOADER, Engine, Sought, find_engine, last_line, look_into
from twoarm.run.freeze import ProgramFile, accepted_version, find_program
from twoarm.run.place import place_root
from twoarm.run.schedule import Frozen, task_keys
from twoarm.run.sealing import (
    CONTAINERS,
    WORKSPACE_IMAGE,
    Sealer,
    check_mounts,
)
from twoarm.run.shown import lies
from twoarm.run.suite import PLACEHOLDERS, SuiteTask, fill, placeholders
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.isolation import RUN_LABEL
from twoarm.run.tree import tree_digest
from twoarm.text.escape import named, visible

Isolation = Literal["copy", "bwrap", "podman", "docker"]
_VERSION_SECONDS = 30
# What whoever is held back has of its own, and what an image has.
_PRIVATE = ("/tmp", "/var/tmp", "/dev")
_OF_IMAGES = (
    "/bin",
    "/etc",
    "/lib",
    "/lib64",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/usr/bin",
    "/usr/lib",
)
# Looks for a program, and prints what it is started with if that is not there.
_LOOK = f'command -v "$0" > /dev/null || exit; ({INTERPRETER}) < "$0"; ({LOADER}) < "$0"; true'


class ChosenIsolation(msgspec.Struct, frozen=True, kw_only=True):
    """The isolation of a run, as far as it is known before anything is set up."""

    name: Isolation
    # bubblewrap or the client of the engine; nothing for `copy`.
    tool: str = ""
    # Why it is not a better one; nothing if it was asked for.
    reason: str = ""
    # Whether it still has to be seen that acceptance does inside what it does outside.
    tentative: bool = False
    # The ids of images, by their keys.
    images: dict[str, str] = {}

    @property
    def contained(self) -> bool:
        """Whether steps run in containers."""
        return self.name in CONTAINERS


def choose_isolation(
    asked: Isolation | None,
    checked: CheckedSuite,
    tasks: Sequence[SuiteTask],
    agent: Agent,
    earlier: Frozen | None,
) -> ChosenIsolation:
    """What was asked for, or refuse; otherwise the best that works here."""
    if asked != "copy":
        _check_agent_mounts(checked)
    imaged = _has_image(checked, tasks)
    if asked is None and imaged:
        asked = "podman" if shutil.which("podman") or not shutil.which("docker") else "docker"
    if asked in CONTAINERS and checked.of_harbor:
        raise UsageError(f"--isolation {asked}: {named(agent.name)} {HarborAgent.why_not_nested}")
    if asked in CONTAINERS:
        _check_image_mounts(checked)
        return _containers(asked, checked, tasks, earlier)
    for key, wants in _container_keys(checked, tasks):
        if wants:
            way = "use --isolation podman" if imaged else "name workspace.image"
            which = f"--isolation {asked}: " if asked else ""
            more = ' (a sandbox knows "none" and "host")' if key == "agent.network" else ""
            raise UsageError(f"{which}{key} needs a container{more}; {way}")
    if asked == "copy":
        if checked.agent.network is not None:
            raise UsageError(
                "--isolation copy: agent.network has no effect: nothing holds an agent back there"
            )
        return ChosenIsolation(name="copy")
    tool, why = _bubblewrap(checked, agent)
    if asked == "bwrap":
        if why is not None:
            raise UsageError(f"--isolation bwrap: {why}")
        return ChosenIsolation(name="bwrap", tool=tool)
    if why is None and checked.agent.network is not None:
        # In the open that would not hold.
        return ChosenIsolation(name="bwrap", tool=tool)
    if why is None and agent.name == "command":
        why = "twoarm cannot know what a command needs; try --isolation bwrap"
    if why is None:
        return ChosenIsolation(name="bwrap", tool=tool, tentative=True)
    if checked.agent.network is not None:
        raise UsageError(f"agent.network needs bubblewrap or a container, and {why}")
    return ChosenIsolation(name="copy", reason=f"bwrap: {why}")


def _check_agent_mounts(checked: CheckedSuite) -> None:
    """Refuse what an engine would make, and a sandbox trip over."""
    for path in map(checked.at, checked.agent.mounts):
        if not os.path.exists(path):
            raise InputError(
                f"agent.mounts: {visible(path)}: no such file or folder; name one that is there"
            )
        if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
            raise InputError(
                f"agent.mounts: {visible(path)}: you may not read it, and so nobody could inside; "
                "change its permissions, or leave it out"
            )
        real = os.path.realpath(path)
        if real in _PRIVATE:
            raise InputError(
                f"agent.mounts: {visible(path)} would take the place of the {real} that agents "
                "have for themselves; name the folders in it that they need"
            )
        if real == "/" or lies(real, "/proc"):
            raise InputError(
                f"agent.mounts: {visible(path)} would show agents the whole machine; name the "
                "folders that they need"
            )


def _check_image_mounts(checked: CheckedSuite) -> None:
    """Refuse what would hide the programs of an image, or what its engine needs there."""
    for path in map(checked.shown_at, checked.agent.mounts):
        if path in _OF_IMAGES:
            raise InputError(
                f"agent.mounts: {visible(path)} would take the place of the {path} of the image; "
                "name the folders in it that agents need"
            )


def _has_image(checked: CheckedSuite, tasks: Sequence[SuiteTask]) -> bool:
    place = checked.workspace
    return bool(place.image or place.dockerfile or any(task.image for task in tasks))


def _container_keys(
    checked: CheckedSuite, tasks: Sequence[SuiteTask]
) -> Iterator[tuple[str, object]]:
    """What only containers have, and whether the suite asks for it."""
    place, limits = checked.workspace, checked.suite.limits
    yield "workspace.image", place.image
    yield "workspace.dockerfile", place.dockerfile
    for task in tasks:
        yield f"tasks.{task.id}.image", task.image
    yield "workspace.acceptance_network", place.acceptance_network
    yield "limits.memory_mb", limits.memory_mb
    yield "limits.cpus", limits.cpus
    yield "agent.network", checked.agent.network not in (None, "none", "host")


def _containers(
    name: Isolation, checked: CheckedSuite, tasks: Sequence[SuiteTask], earlier: Frozen | None
) -> ChosenIsolation:
    engine = find_engine(name)
    place = checked.workspace
    common = place.image or place.dockerfile
    early = bool(place.setup_commands) or any(arm.source for arm in checked.arms.values())
    without = [task.id for task in tasks if not task.image]
    if not common and (without or early):
        who = f"task {named(without[0])} has" if without else "setup and builds have"
        raise UsageError(f"--isolation {name}: {who} no image; name workspace.image")
    # What they were when the schedule was frozen, whatever has been built or pulled since.
    then = {} if earlier is None else earlier.digests
    images = {}
    wanted = {WORKSPACE_IMAGE: common} if common else {}
    wanted |= {task_keys(task.id)[1]: task.image for task in tasks if task.image}
    for key, image in wanted.items():
        built = key == WORKSPACE_IMAGE and place.dockerfile is not None
        if key in then:
            images[key] = engine.same_image("workspace.dockerfile" if built else key, then[key])
        elif built:
            images[key] = engine.build("workspace.dockerfile", checked.at(common or ""))
        else:
            images[key] = engine.image_id(key, image or "")
    engine.check_network("agent.network", checked.agent.network)
    return ChosenIsolation(name=name, tool=engine.path, images=images)


def _bubblewrap(checked: CheckedSuite, agent: Agent) -> tuple[str, str | None]:
    """bubblewrap on this machine, and why it will not do."""
    if not agent.nests:
        why = getattr(agent, "why_not_nested", Installed.why_not_nested)
        return "", f"{named(agent.name)} {why}"
    tool = shutil.which("bwrap")
    if tool is None:
        return "", "bubblewrap is not installed; see your package manager"
    alone = [tool, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "/bin/true"]
    done = subprocess.run(alone, capture_output=True, check=False)
    if done.returncode:
        return "", f"not allowed on this machine: {last_line(done.stderr)}"
    done = inside(sealer_of(checked, ChosenIsolation(name="bwrap", tool=tool)), ["/bin/true"])
    if done.returncode:
        return "", f"the sandbox of this suite does not start: {last_line(done.stderr)}"
    return tool, None


def sealer_of(
    checked: CheckedSuite,
    chosen: ChosenIsolation,
    program: str | None = None,
    token: str = "",
    kept_back: Sequence[str] = (),
) -> Sealer:
    """What makes the seals of a run."""
    if chosen.contained:
        mounts = map(checked.shown_at, checked.agent.mounts)
        check_mounts([checked.shown, *mounts, *kept_back])
    return Sealer(
        checked=checked,
        isolation=chosen.name,
        tool=chosen.tool,
        program=program,
        path=os.environ.get("PATH", os.defpath),
        images=chosen.images,
        token=token,
        kept_back=(os.path.realpath(os.path.expanduser("~")), *kept_back),
    )


def inside(sealer: Sealer, argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """A program of the agent in the sandbox, with a HOME that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="twoarm-") as folder:
        home = os.path.realpath(folder)
        seal = sealer.for_agent("", "", [*argv, *sealer.checked.agent.argv])
        words = [*seal.words["agent"], "--bind", home, home, *seal.last["agent"], "--chdir", home]
        env = {"PATH": sealer.path, "HOME": home, "TMPDIR": home}
        try:
            return subprocess.run(
                [*words, "--", *argv],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            why = f"no answer after {_VERSION_SECONDS} s".encode()
            return subprocess.CompletedProcess(error.cmd, 124, b"", why)


def settle_program(
    checked: CheckedSuite, tasks: Sequence[SuiteTask], agent: Agent, chosen: ChosenIsolation
) -> tuple[ChosenIsolation, ProgramFile]:
    """Find the program of the agent where it will run: on this machine, or in every image.

    One that does not start in a sandbox that nobody asked for runs in the open.
    """
    if chosen.contained:
        return chosen, _in_images(checked, tasks, agent, chosen)
    program = find_program(agent, checked)
    if chosen.name == "copy" or set(placeholders(agent.executable)) - {"suite"}:
        return chosen, program
    why = _why_not_inside(checked, agent, sealer_of(checked, chosen, program.path), program.path)
    if why is None:
        return chosen, program
    if not chosen.tentative:
        raise UsageError(f"--isolation bwrap: {why}; name what it needs in agent.mounts")
    return ChosenIsolation(name="copy", reason=f"bwrap: {why}"), program


def _why_not_inside(
    checked: CheckedSuite, agent: Agent, sealer: Sealer, program: str
) -> str | None:
    """Why a program cannot be used in a sandbox.

    What has a version tells it; of anything else it is enough that all of it is there.
    """
    if agent.name != "command":
        done = inside(sealer, [program, "--version"])
        printed = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode == 0 and agent.version(printed):
            return None
        return f"{visible(program)} does not start inside: {last_line(done.stderr or done.stdout)}"
    done = inside(sealer, ["/bin/sh", "-c", _LOOK, program])
    lacks = done.stdout.decode("utf-8", "replace").strip()
    if lacks and _is_missing(checked, lacks):
        return f"{visible(program)} is started with {visible(lacks)}, which is not there inside"
    if not done.returncode:
        return None
    why = f": {last_line(done.stderr)}" if done.stderr else ""
    return f"{visible(program)} is not there inside{why}"


def _is_missing(checked: CheckedSuite, interpreter: str) -> bool:
    """Whether what is not where programs are looked for cannot be elsewhere: where the suite says,
    or in what it builds."""
    arms = checked.arms.values()
    variables = (checked.workspace.env, checked.agent.env, *(arm.env for arm in arms))
    elsewhere = any("PATH" in env for env in variables) or any(arm.source for arm in arms)
    return os.path.isabs(interpreter) or not elsewhere


def _paths_of(checked: CheckedSuite) -> list[str]:
    """Where the suite says that programs are, in any arm, as far as that is known; nothing if it
    does not."""
    values = {name: f"{{{name}}}" for name in PLACEHOLDERS} | {"suite": checked.shown}
    common = {**checked.workspace.env, **checked.agent.env}
    texts = [{**common, **arm.env}.get("PATH", "") for arm in checked.arms.values()]
    lists = [fill(text, values).split(os.pathsep) for text in texts]
    known = [os.pathsep.join(part for part in parts if "{" not in part) for parts in lists]
    return list(dict.fromkeys(known))


def _in_images(
    checked: CheckedSuite, tasks: Sequence[SuiteTask], agent: Agent, chosen: ChosenIsolation
) -> ProgramFile:
    """The program in the image of every task."""
    sealer = sealer_of(checked, chosen)
    engine = Engine(name=chosen.name, path=chosen.tool)
    name = agent.executable
    made = bool(set(placeholders(name)) - {"suite"})
    program = "" if made else fill(name, {"suite": checked.shown})
    if os.sep in program:
        program = checked.at(program)
    workspace = checked.workspace.image or checked.workspace.dockerfile or ""
    images = {sealer.image(task.id): task.image or workspace for task in tasks}
    if WORKSPACE_IMAGE in chosen.images:
        images[chosen.images[WORKSPACE_IMAGE]] = workspace
    root = place_root(os.environ)
    check_mounts([root])
    limits = checked.suite.limits
    wanted = [key for key in ("memory_mb", "cpus", "processes") if getattr(limits, key) is not None]
    versions = {}
    path = name
    has_version = agent.name != "command"
    for (image, shown), where in product(images.items(), _paths_of(checked)):
        sought = Sought(name=program, has_version=has_version, path=where)
        words = sealer.for_agent(tasks[0].id, "", [program]).words["agent"]
        inner = look_into(engine, words, image, shown, sought, root)
        if wanted and not inner.limited:
            raise InputError(
                f"limits.{wanted[0]}: {chosen.name} ignores it, since you are not root and this "
                "system has cgroups v1; leave it out, or run as root"
            )
        if inner.lacks and _is_missing(checked, inner.lacks):
            raise InputError(
                f"image {named(shown)} has no program {named(inner.lacks)}, which "
                f"{visible(program)} is started with; install it in the image"
            )
        path = inner.path or name
        versions[accepted_version(agent, path, inner.printed)] = shown
    if len(versions) > 1:
        told = ", ".join(f"{version} in {named(shown)}" for version, shown in versions.items())
        raise InputError(f"agent {named(agent.name)}: not the same in every image: {told}")
    return ProgramFile(path=path, digest="", version=next(iter(versions), None))


def frozen_images(checked: CheckedSuite, images: Mapping[str, str]) -> dict[str, str]:
    """What a schedule keeps of the images, by key."""
    digests = dict(images)
    if checked.workspace.dockerfile is not None:
        path = checked.at(checked.workspace.dockerfile)
        digests["workspace.dockerfile"] = tree_digest(path)
    return digests


def clear_containers(chosen: ChosenIsolation, token: str) -> None:
    """Remove the containers of a run whose runner was killed."""
    label = f"{RUN_LABEL}={token}"
    if why := Engine(name=chosen.name, path=chosen.tool).clear(label):
        raise InputError(
            f"--isolation {chosen.name}: containers of the runner that was killed are still there: "
            f"{why}; remove them ({chosen.name} ps -a --filter label={label}), then resume"
        )


_HELD = {
    "copy": "nothing holds an agent back; it can read, write and kill whatever you can",
    "bwrap": "agents see their own folders and what programs need",
    "podman": "agents see their own folders and their image",
    "docker": "agents see their own folders and their image",
}


def isolation_said(name: str, reason: str, checked: CheckedSuite) -> str:
    """Which isolation was taken, what it is, and why it is not a better one."""
    why = f" ({reason})" if reason else ""
    offline = "; agents have no network" if checked.agent.network == "none" else ""
    return f"isolation {name}: {_HELD[name]}{offline}{why}"
