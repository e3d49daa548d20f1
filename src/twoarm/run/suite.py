"""The suite: tasks, arms, and the agent that runs them; its keys are defined here, once."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from twoarm.programs.format import Settings
from twoarm.programs.settings import Program, Slug, Text, Variable
from twoarm.runs.record import MOST_TASK_TAGS, tidied

LimitSeconds = Annotated[float, Meta(gt=0, le=604_800)]
Dollars = Annotated[float, Meta(gt=0, le=1_000_000)]
RetryCount = Annotated[int, Meta(ge=0, le=100)]
Megabytes = Annotated[int, Meta(ge=1, le=100_000)]
# With less, engines start no container.
ContainerMegabytes = Annotated[int, Meta(ge=6, le=100_000_000)]
CpuCount = Annotated[float, Meta(gt=0, le=1_000)]
ProcessCount = Annotated[int, Meta(ge=10, le=1_000_000)]
# What `args`, `env`, `argv` and `prompt_template` may name in braces.
PLACEHOLDERS = (
    "prompt",
    "prompt_file",
    "model",
    "task_id",
    "acceptance_command",
    "suite",
    "workspace",
    "build",
    "usage",
)
# A shell uses braces too: in commands only these are filled in, and `${name}` never is.
SHELL_PLACEHOLDERS = ("suite", "workspace", "build")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SuiteTask(_Table, frozen=True, kw_only=True):
    """One task: what the agent is asked, and what tells whether it was done."""

    # Of a task of Harbor, the name of its folder unless it is given; all others have one.
    id: Slug = ""
    # A folder that is a task of Harbor, or has several in it; a schedule has each on its own.
    harbor: Text | None = None
    # One of both: a command, or a command for each check.
    acceptance_command: Text | None = None
    acceptance_commands: dict[Slug, Text] = {}
    prompt: Text | None = None
    prompt_file: Text | None = None
    acceptance_files: tuple[Text, ...] = ()
    setup_commands: tuple[Text, ...] = ()
    timeout_seconds: LimitSeconds | None = None
    tags: Annotated[tuple[Text, ...], Meta(max_length=MOST_TASK_TAGS)] = ()
    family: Text | None = None
    image: Text | None = None

    @property
    def acceptance(self) -> dict[str, str]:
        """The commands by the names of their checks, in that order; a single one has no name.

        A schedule does not keep the order in which a suite spells its keys.
        """
        if self.harbor is not None:
            return {}
        return dict(sorted(self.acceptance_commands.items())) or {"": self.acceptance_command or ""}

    @property
    def whole_acceptance(self) -> str:
        """All of it as one shell command, for agents and for records."""
        return " && ".join(self.acceptance.values())


class SourceRepo(_Table, frozen=True, kw_only=True):
    """A repository at one commit."""

    repo: Text
    ref: Text = "HEAD"


class Arm(_Table, frozen=True, kw_only=True):
    """What one arm has of its own; everything else is the same in all."""

    model: Text | None = None
    args: tuple[str, ...] = ()
    env: dict[Variable, str] = {}
    files: dict[Text, Text] = {}
    home: dict[Text, Text] = {}
    remove: tuple[Text, ...] = ()
    uptake: tuple[Text, ...] = ()
    prompt_template: Text | None = None
    source: SourceRepo | None = None
    build_commands: tuple[Text, ...] = ()
    setup_commands: tuple[Text, ...] = ()


class Workspace(_Table, frozen=True, kw_only=True):
    """What every trial starts from."""

    repo: Text | None = None
    ref: Text = "HEAD"
    copy: Text | None = None
    env: dict[Variable, str] = {}
    setup_commands: tuple[Text, ...] = ()
    image: Text | None = None
    dockerfile: Text | None = None
    acceptance_network: bool = False


class Limits(_Table, frozen=True, kw_only=True):
    """How long, how much and how often."""

    timeout_seconds: LimitSeconds = 1800.0
    setup_seconds: LimitSeconds = 600.0
    acceptance_seconds: LimitSeconds = 600.0
    grace_seconds: LimitSeconds = 5.0
    budget_usd: Dollars | None = None
    trial_usd: Dollars | None = None
    prices: Text | None = None
    retries: RetryCount = 2
    retry_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 30.0
    output_mb: Megabytes = 256
    patch_mb: Megabytes = 32
    memory_mb: ContainerMegabytes | None = None
    cpus: CpuCount | None = None
    processes: ProcessCount | None = None


class Suite(_Table, frozen=True, kw_only=True):
    """A suite as its file spells it."""

    suite_id: Text | None = None
    description: str = ""
    baseline: Text | None = None
    tasks_from: Text | None = None
    agent: Program | None = None
    workspace: Workspace | None = None
    limits: Limits = Limits()
    acceptance_files: tuple[Text, ...] = ()
    uptake: tuple[Text, ...] = ()
    arms: dict[Slug, Arm] = {}
    tasks: tuple[SuiteTask, ...] = ()

    @property
    def families(self) -> int | None:
        """How many families the tasks have; None where no two are of one."""
        count = len({(task.family, task.family is None and task.id) for task in self.tasks})
        return count if count < len(self.tasks) else None


def read_as(suite: Suite) -> Settings:
    """How the runs of a suite are read."""
    agent = suite.agent
    chosen = {"scorer": agent and agent.scorer, "threshold": agent and agent.threshold}
    given = {name: value for name, value in chosen.items() if value is not UNSET}
    return msgspec.convert({"scheduled": True, **given}, Settings)


_NAMED = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
_SHELL = re.compile(r"(?<!\$)\{(" + "|".join(SHELL_PLACEHOLDERS) + r")\}")


def placeholders(text: str) -> list[str]:
    """The names in braces; a doubled brace is a brace."""
    return [match[2] for match in _NAMED.finditer(text) if match[2]]


def fill(text: str, values: dict[str, str]) -> str:
    """The text with every placeholder filled in."""
    return _NAMED.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", text)


def fill_shell(command: str, values: dict[str, str]) -> str:
    """A shell command with the placeholders that a command may have filled in."""
    return _SHELL.sub(lambda match: values[match[1]], command)


# What each key means, for the JSON Schema.
_MEANINGS = {
    "Suite": {
        "suite_id": "any name for the suite; without it, the name of the file",
        "description": "for people",
        "baseline": "the arm without the change",
        "tasks_from": "a suite file whose tasks come first, relative to this file",
        "agent": "the agent of every arm",
        "workspace": "what every trial starts from",
        "limits": "how long, how much and how often",
        "acceptance_files": "paths restored from the untouched workspace before acceptance",
        "uptake": "patterns of what counts as a use of the change, in every arm",
        "arms": "the arms, two or more, by name",
        "tasks": "the tasks",
    },
    "SuiteTask": {
        "id": "the name of the task; letters, digits, dot, dash and underscore",
        "harbor": "instead of a prompt and acceptance, a task folder of Harbor, or a folder of "
        "them; with program = harbor",
        "acceptance_command": "a shell command; exit code 0 is success",
        "acceptance_commands": "instead of acceptance_command, name = shell command for each "
        "check, in the order of their names; success is exit code 0 of all of them",
        "prompt": "what the agent is asked",
        "prompt_file": "a file with the prompt, beside the suite or in the root of the repository",
        "acceptance_files": "paths restored from the untouched workspace before acceptance",
        "setup_commands": "shell commands, once per task, after those of the workspace",
        "timeout_seconds": "how long the agent may take at this task",
        "tags": "names for --tag and for effects by tag",
        "family": "a name that tasks which are alike share, such as those of one repository",
        "image": "the container image of this task, unless that of the workspace",
    },
    "SourceRepo": {
        "repo": "a git repository, relative to the suite",
        "ref": "a branch, tag or commit",
    },
    "Arm": {
        "model": "the model of this arm",
        "args": "more arguments of the agent, after those of the suite",
        "env": "variables of the agent",
        "files": "workspace path = file or folder beside the suite",
        "home": "path in the trial's HOME = file or folder beside the suite",
        "remove": "workspace paths to remove",
        "uptake": "patterns of what counts as a use of the change, in this arm alone",
        "prompt_template": "the prompt of this arm; {prompt} is the task's",
        "source": "the repository of a tool that this arm uses",
        "build_commands": "shell commands in a checkout of source, once; {build} is for results",
        "setup_commands": "shell commands in the workspace of each trial of this arm",
    },
    "Program": {
        "program": "opencode, codex, claude-code, gemini-cli, harbor, or command",
        "model": "the model, unless the arm names one",
        "args": "arguments of the agent, before those of the arm",
        "env": "variables of the agent",
        "home": "path in the trial's HOME = file or folder beside the suite",
        "secrets": "names of variables passed to the agent; their values are redacted",
        "argv": "command: the program and its arguments",
        "output": "command: the name under which standard output is kept",
        "format": "command: the format that collect reads the output as; none for no output",
        "scorer": "harbor: the reward that decides success; needed where a task has several and "
        "none is called reward",
        "threshold": "harbor: the least reward that is a success; default: 1",
        "mounts": "paths that every step may read in a sandbox or container",
        "network": "none, host, or a network of podman or docker; default: as the isolation has it",
    },
    "Workspace": {
        "repo": "a git repository, exported at one commit without its history",
        "ref": "a branch, tag or commit",
        "copy": "a folder to copy, instead of repo",
        "env": "variables of setup, agent and acceptance",
        "setup_commands": "shell commands, once per task; every trial gets a copy of the result",
        "image": "a container image for every step, for podman or docker",
        "dockerfile": "a Dockerfile that is built into such an image, from the folder it is in",
        "acceptance_network": "containers: whether acceptance commands have a network",
    },
    "Limits": {
        "timeout_seconds": "how long the agent may take",
        "setup_seconds": "how long each setup command may take",
        "acceptance_seconds": "how long each acceptance command may take",
        "grace_seconds": "from SIGTERM to SIGKILL; of harbor from SIGINT, and at least 10",
        "budget_usd": "what all trials together may cost",
        "trial_usd": "what one trial may cost",
        "prices": "a price table, for agents that report tokens and no dollars",
        "retries": "how often a trial with an infra failure is tried again",
        "retry_seconds": "the pause after such a failure; it doubles each time",
        "output_mb": "how much an agent may print",
        "patch_mb": "how much of what an agent changed is kept, in each patch",
        "memory_mb": "containers: memory of a step",
        "cpus": "containers: processors of a step",
        "processes": "how many processes and threads a step may have at once",
    },
}


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of a suite, made from the type that decodes it."""
    definitions = msgspec.json.schema_components([Suite], ref_template="#/$defs/{name}")[1]
    for name, meanings in _MEANINGS.items():
        for key, meaning in meanings.items():
            definitions[name]["properties"][key]["description"] = meaning
    body: dict[str, Any] = definitions.pop("Suite")
    body.pop("title")
    body.pop("description")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "suite.schema.json",
        "title": "twoarm suite",
        "description": "Tasks, arms and an agent: what `twoarm run` runs. "
        "The same keys in TOML and in JSON.",
        **body,
        "$defs": definitions,
    }
    # Through JSON, which has no tuples, unlike the defaults of the types.
    made: dict[str, Any] = tidied(msgspec.json.decode(msgspec.json.encode(schema)))
    return made
