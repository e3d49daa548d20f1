"""Whether the trees that trials start from are what they were, and which runs are in doubt."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from twoarm.errors import InputError
from twoarm.run.ledger import TREES, UNCHECKED, WHOLE, RunFolder
from twoarm.run.loop import StoppedError
from twoarm.run.prepare import Prepared
from twoarm.text.escape import counted, named, shortened, visible

if TYPE_CHECKING:
    from twoarm.run.executors.ray import Ray


def earlier_trees(folder: RunFolder) -> dict[str, str]:
    """The digests of the trees that the trials of a folder started from."""
    if folder.folder.look(TREES) is None:
        return {}
    try:
        return msgspec.json.decode(folder.folder.read(TREES), type=dict[str, str])
    except ValueError as error:
        raise InputError(f"{visible(folder.at(TREES))}: {visible(str(error))}") from error


def keep_trees(folder: RunFolder, digests: Mapping[str, str]) -> None:
    """Remember the trees that trials start from; refuse others than those of earlier trials."""
    made = {key: digest for key, digest in digests.items() if key.startswith("trees.")}
    earlier = earlier_trees(folder)
    for key in sorted(made.keys() & earlier.keys()):
        if made[key] != earlier[key]:
            raise InputError(
                f"task {named(key.removeprefix('trees.'))}: its setup made other files than for "
                f"the runs that are there (digest {earlier[key][:12]} then, {made[key][:12]} now); "
                "make it repeatable, or start over with another --out"
            )
    folder.folder.write(TREES, msgspec.json.encode(earlier | made, order="sorted"))


def check_trees(
    folder: RunFolder, prepared: Prepared, nodes: "Ray | None", of_suite: Sequence[str]
) -> None:
    """Stop if the trees that trials start from are not what they were, here or on nodes, or if
    files of the suite are not.

    What trials started from on a node that is gone, or was cleared meanwhile, nobody can tell.
    """
    trees = list(prepared.changed())
    looked_at: set[str | None] = {None}
    if nodes is not None:
        trees += nodes.changed(prepared.different())
        looked_at |= nodes.looked_at
    since = folder.since_whole()
    if unseen := [trial for trial, node in since.items() if node not in looked_at]:
        folder.doubt(unseen, UNCHECKED)
        folder.say("trees not looked at", runs=unseen)
    changed = [*trees, *of_suite]
    if not changed:
        folder.say(WHOLE)
        return
    doubtful = list(since)
    folder.doubt(doubtful)
    folder.say("trees changed", files=changed[:20], runs=doubtful)
    more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
    # The suite is the user's own, and stays as it is.
    back = "" if trees else "put it back, and "
    doubts = (
        f"{counted(len(doubtful), 'run')} since the last check may have started from it or "
        f"been judged by it: {visible(shortened(', '.join(doubtful), 500))}; {back}remove their "
        f"folders below {visible(folder.at('runs'))} to run them again"
        if doubtful
        else "no run was made since the last check"
    )
    what = "the trees that trials start from" if trees else "the suite while trials ran"
    raise StoppedError(
        f"a trial, or somebody else, changed {what}: {visible(changed[0])}{more}; {doubts}"
    )
