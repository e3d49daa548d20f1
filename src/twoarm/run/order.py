"""The order: all that a supervisor needs to know to run one attempt, and nothing to look up."""

import msgspec

from twoarm.run.agent import After


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, or with no `argv` a set-up or an acceptance on its own."""

    # Private, made by the supervisor, gone when it ends.
    scratch: str
    # Where the kept files go, with secrets struck out.
    folder: str
    # The tree that is copied, and its one commit.
    tree: str
    base: str
    # In the environment of every process of the attempt.
    marker: str
    prompt: str
    sandbox: tuple[str, ...]
    # Variables of `setup`, `agent` and `acceptance`.
    env: dict[str, dict[str, str]]
    # Names and values; they are in the agent's variables as well.
    secrets: dict[str, str]
    setup: tuple[str, ...]
    setup_seconds: float
    home_texts: dict[str, str]
    home_files: dict[str, str]
    argv: tuple[str, ...]
    # The name under which standard output is kept.
    output: str
    output_bytes: int
    usage: str
    timeout_seconds: float
    grace_seconds: float
    after: tuple[After, ...]
    keep: dict[str, str]
    # Paths that acceptance finds as they were.
    restore: tuple[str, ...]
    # Empty for none.
    acceptance_command: str
    acceptance_seconds: float
    keep_workspace: str
    # Where the workspace goes once it is set up; None to remove it.
    result: str | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended: its folder is complete, or it is not and here is why."""

    attempt: str
    complete: bool
    cancelled: bool
    # The supervisor itself was killed, and the runner was not.
    died: bool
    reason: str
