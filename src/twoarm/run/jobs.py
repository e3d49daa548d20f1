"""The job: all that a supervisor needs to know to run one attempt, and nothing to look up."""

import msgspec

from twoarm.programs.agent import After


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What the steps of an attempt run in, besides what is the attempt's own."""

    isolation: str = "copy"
    # By kind of step, as far as there are any (`setup`, `agent`, `acceptance`): what comes before
    # it on the command line, and for bubblewrap what comes after the folders of the attempt.
    # Nothing for the open.
    words: dict[str, tuple[str, ...]] = {}
    last: dict[str, tuple[str, ...]] = {}
    # Of containers: the image, and what comes before its PATH.
    image: str = ""
    path: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt; or with no `argv` a set-up or an acceptance on its own, which needs less."""

    # Private, made by the supervisor, gone when it ends; see `Scratch`.
    scratch: str
    # Where the kept files go, with secrets redacted.
    folder: str
    # The tree that is copied, and the file that says what is in it; empty where nobody asks.
    tree: str
    manifest: str = ""
    # In the environment of every process of the attempt.
    marker: str
    prompt: str = ""
    # Whose seal it is, for a machine that has to make it anew, and what may name files in it.
    task: str = ""
    arm: str = ""
    texts: tuple[str, ...] = ()
    build: str = ""
    seal: Seal = Seal()
    # How many there may be at once; 0 for as many as nobody needs.
    processes: int = 0
    # Where our own programs are looked up, before anything that an arm has built.
    path: str
    # Variables of `setup`, `agent` and `acceptance`.
    env: dict[str, dict[str, str]]
    # Names and values; they are in the agent's variables as well.
    secrets: dict[str, str]
    setup: tuple[str, ...]
    setup_seconds: float
    home_texts: dict[str, str] = {}
    home_files: dict[str, str] = {}
    argv: tuple[str, ...] = ()
    # The name under which standard output is kept.
    output: str = ""
    output_bytes: int
    # How much of what was changed is kept, in each patch.
    patch_bytes: int = 0
    timeout_seconds: float = 0.0
    # What asks the agent to end, and how long it has for that.
    stop_signal: int = 15
    grace_seconds: float
    # Engines that are searched for what has the marker in its name.
    engines: tuple[str, ...] = ()
    after: tuple[After, ...] = ()
    keep: dict[str, str] = {}
    # Files with what an earlier agent changed, which is put back in place of one.
    patches: tuple[str, ...] = ()
    # Paths that acceptance finds as they were.
    restore: tuple[str, ...] = ()
    # Commands by the names of their checks, a single one without a name; empty for none.
    acceptance: dict[str, str] = {}
    # For each of them.
    acceptance_seconds: float
    keep_workspace: str = "none"
    # Where the workspace goes once it is set up; None to remove it.
    result: str | None = None

    @property
    def most_seconds(self) -> float:
        """How long it may take at most, if its supervisor does its job."""
        # A copy of the tree and of each file of HOME has the time of a set-up command.
        setups = 1 + len(self.setup) + len(self.home_files)
        after = sum(after.seconds * after.most for after in self.after)
        graces = self.grace_seconds * (setups + 2 + len(self.acceptance))
        agent = self.timeout_seconds + after if self.argv else 0.0
        restores = self.setup_seconds * len(self.restore)
        # What was printed is searched for secrets; an agent can make that a megabyte a second.
        kept = self.output_bytes / 2**20
        acceptance = self.acceptance_seconds * len(self.acceptance)
        work = setups * self.setup_seconds + agent + restores + acceptance
        return work + graces + kept


class Scratch:
    """The folders of an attempt: `box` is all that the agent sees and may write to."""

    def __init__(self, path: str) -> None:
        self.path = path
        # The copy of the tree.
        self.workspace = f"{path}/box/work"
        self.home = f"{path}/box/home"
        self.prompt = f"{path}/box/tmp/prompt.txt"
        # Where a command may leave its own counts.
        self.usage = f"{path}/box/tmp/usage.json"
        # What the agent prints while it runs, written by the supervisor.
        self.output = f"{path}/own/out"


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended: its folder is complete, or it is not and here is why."""

    attempt: str
    complete: bool
    cancelled: bool
    # The supervisor was killed or did not answer, and an agent may have done that.
    died: bool
    reason: str
    # Whether it may have cost something.
    begun: bool = True
    # The node that was lost, and every attempt there with it.
    lost_node: str = ""
