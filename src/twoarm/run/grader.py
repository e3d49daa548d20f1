"""What grades the runs of a task: everything that acceptance uses, and its digest."""

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from twoarm.run.suite import Suite, SuiteTask
from twoarm.run.tree import tree_digest

# What acceptance uses of a suite, by table: another value of any of these is another grader.
_OF_SUITE = ("acceptance_files",)
_OF_TASK = ("acceptance_command", "acceptance_commands", "acceptance_files")
_OF_LIMITS = ("acceptance_seconds",)
_OF_WORKSPACE = ("acceptance_network",)
# An agent sees the variables, too.
_OF_BOTH = ("env",)


def grader_of(
    suite: Suite, task: SuiteTask, trees: Iterable[str], files: Sequence[str], image: str
) -> str:
    """The digest of what grades a task, with its files as they are in the trees of all arms.

    So are `files` of the suite that its commands name, and the image that they run in, if any.
    """
    tables: list[tuple[msgspec.Struct | None, Sequence[str]]] = [
        (suite, _OF_SUITE),
        (task, _OF_TASK),
        (suite.limits, _OF_LIMITS),
        (suite.workspace, (*_OF_BOTH, *_OF_WORKSPACE)),
    ]
    # A key that a later version adds makes no other grader of a suite without it.
    used = [
        {key: value for key in keys if (value := getattr(table, key, None))}
        for table, keys in tables
    ]
    if image:
        used.append({"image": image})
    if files:
        used.append({"files": [tree_digest(path, without_runs=True) for path in files]})
    paths = (*suite.acceptance_files, *task.acceptance_files)
    restored = sorted({_digest_of_files(tree, paths) for tree in trees})
    return sha256(msgspec.json.encode([used, restored], order="sorted")).hexdigest()


def _digest_of_files(tree: str, paths: Sequence[str]) -> str:
    """The digest of what acceptance finds as it was in a tree."""
    digest = sha256()
    for path in sorted({path.rstrip("/") for path in paths}):
        at = os.path.join(tree, path)
        if os.path.islink(at):
            content = f"link {os.readlink(at)}"
        else:
            content = tree_digest(at) if os.path.exists(at) else "nothing"
        digest.update(f"{path}\0{content}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def without_acceptance(suite: Suite) -> Suite:
    """A suite without what acceptance alone uses."""
    workspace = suite.workspace and msgspec.structs.replace(
        suite.workspace, **dict.fromkeys(_OF_WORKSPACE)
    )
    return msgspec.structs.replace(
        suite,
        **dict.fromkeys(_OF_SUITE),
        workspace=workspace,
        tasks=tuple(
            msgspec.structs.replace(task, **dict.fromkeys(_OF_TASK)) for task in suite.tasks
        ),
        limits=msgspec.structs.replace(suite.limits, **dict.fromkeys(_OF_LIMITS)),
    )
