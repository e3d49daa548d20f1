"""What the reader must know about the use of the change and about failed runs, as caveats."""

from collections.abc import Iterator

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.errors import Caveat
from twoarm.explain.failures import Failures
from twoarm.explain.tools import ToolUse
from twoarm.explain.uptake import ArmUptake, Uptake
from twoarm.runs.endings import FAILURE_WORDS
from twoarm.runs.record import UPTAKE_NOT_SHOWN
from twoarm.text.escape import counted
from twoarm.text.sentence import Name, Sentence, joined, listed, say

# From this share of runs on, a change that is not always used is no surprise.
_HALF = 0.5


def uptake_caveats(uptake: Uptake | None, comparison: Comparison) -> Iterator[Caveat]:
    """All of them, the most important first; nothing if nobody asked."""
    if uptake is None:
        yield from _unseen(comparison)
        return
    ours, theirs = uptake.candidate, uptake.baseline
    yield from _on_use(uptake)
    if theirs.used_runs:
        yield Caveat.say(
            "uptake_contaminated",
            "the baseline {} used the change as well, in {}: it is contaminated, and the arms "
            "differ less than they should",
            Name(theirs.arm),
            _runs(theirs),
        )
    for known, unknown, what in (
        (ours, theirs, "whether {} used the change as well"),
        (theirs, ours, "whether {} used the change at all"),
    ):
        if not unknown.known_runs and unknown.runs:
            yield Caveat.say(
                "uptake_one_arm",
                "use of the change is known for {} only; {} cannot be said",
                Name(known.arm),
                say(what, Name(unknown.arm)),
            )
        elif unknown.known_runs < unknown.runs:
            yield Caveat.say(
                "uptake_partly_known",
                "use of the change is not known for {} of the {} of {}",
                f"{unknown.runs - unknown.known_runs:,}",
                counted(unknown.runs, "run"),
                Name(unknown.arm),
            )


def _unseen(comparison: Comparison) -> Iterator[Caveat]:
    """Uses were to be counted, and no run that counts shows any."""
    asked = comparison.runs.tools.not_shown
    if any(np.isin(asked, arm.rows).any() for arm in comparison.screening.arms):
        yield Caveat.say(
            UPTAKE_NOT_SHOWN,
            "no run shows whether it used the change, though that was asked for: what was "
            "read of the agent's output does not tell",
        )


def _on_use(uptake: Uptake) -> Iterator[Caveat]:
    """In how many of the candidate's runs the change was used."""
    ours = uptake.candidate
    if ours.used_share is None:
        return
    if not ours.used_runs:
        yield Caveat.say(
            "uptake_never",
            "the candidate {} never used the change, in {}: whatever differs between the arms, "
            "using it is not why",
            Name(ours.arm),
            counted(ours.known_runs, "run"),
        )
        return
    if ours.used_share < _HALF:
        yield Caveat.say(
            "uptake_rare",
            "the candidate {} used the change in {}, less than half",
            Name(ours.arm),
            _runs(ours),
        )
    if ours.failed_uses and ours.failed_uses >= _HALF * ours.uses:
        yield Caveat.say(
            "uptake_failed",
            "{} of {} of the change failed: is it allowed, does it work?",
            f"{ours.failed_uses:,}",
            counted(ours.uses, "use"),
        )
    never = [
        task.task_id
        for task in uptake.tasks
        if task.candidate.known_runs and not task.candidate.used_runs
    ]
    if never:
        yield Caveat.say(
            "uptake_some_tasks",
            "the candidate {} used the change on {} of {}; never on {}",
            Name(ours.arm),
            f"{ours.tasks_used:,}",
            counted(ours.tasks, "task"),
            listed(never),
        )


def tool_caveats(tools: ToolUse | None, comparison: Comparison) -> Iterator[Caveat]:
    """Two programs may name one tool differently."""
    if tools is None:
        return
    runs = comparison.runs
    codes = np.concatenate([runs.maker[arm.rows] for arm in comparison.screening.arms])
    seen = np.flatnonzero(np.bincount(codes[codes >= 0]))
    makers = [runs.makers[code] for code in seen.tolist()]
    agents = sorted({maker.agent for maker in makers if maker.agent is not None})
    if len(agents) > 1:
        yield Caveat.say(
            "tools_of_several_agents",
            "the runs are of several agents ({}), which name their tools differently: a tool "
            "that one arm alone calls may be the other's under another name",
            listed(agents),
        )


def failure_caveats(failures: Failures, comparison: Comparison) -> Iterator[Caveat]:
    """Success that a limit decides says little about the change."""
    alone = failures.by_acceptance
    if alone is None or not alone.limits_decide:
        return
    gate = next(gate for gate in comparison.gates if gate.name == alone.gate.name)
    stopped = [arm for arm in failures.arms if arm.stopped]
    limits = sorted({FAILURE_WORDS[code] for arm in stopped for code in arm.limits})
    runs = [say("{} of {}", counted(arm.stopped, "run"), Name(arm.arm)) for arm in stopped]
    yield Caveat.say(
        "limits_decide_success",
        "limits aside, success is {}, not {}: {} passed acceptance although a limit ended {} ({}), "
        "which {}",
        alone.gate.both,
        gate.both,
        joined(runs, " and "),
        "it" if sum(arm.stopped for arm in stopped) == 1 else "them",
        ", ".join(limits),
        "makes most of the difference"
        if alone.gate.standing == gate.standing
        else "decides the gate",
    )


def _runs(arm: ArmUptake) -> Sentence:
    assert arm.used_share is not None
    return say(
        "{} of {} ({})",
        f"{arm.used_runs:,}",
        counted(arm.known_runs, "run"),
        f"{arm.used_share:.1%}",
    )
