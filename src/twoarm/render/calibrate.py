"""A calibration in words: who cries wolf, and what is noise on this suite."""

from collections.abc import Iterator

from twoarm.compare.decide import number_of_gates
from twoarm.render.sheet import Sheet, SheetLine
from twoarm.render.tables import Column, Table, number, tasks_counted, words
from twoarm.result.calibration_file import Calibration, Share
from twoarm.runs.metric import BY_NAME, SUCCESS
from twoarm.text.escape import counted, series
from twoarm.text.number_format import NOT_MEASURED
from twoarm.text.sentence import Name, Sentence, joined, say

WAYS = {
    "gates": f"the {number_of_gates()}",
    "evidence": "the evidence",
    "margin": "the margin rule",
}
_HOW = {
    "split": "the repeats of {} dealt to two arms at random",
    "relabel": "the labels of {} exchanged inside each task",
}


def sheet_of(calibration: Calibration) -> Sheet:
    """The calibration as a short report."""
    arms = joined([say("{}", Name(arm)) for arm in calibration.arms], " and ")
    tasks = tasks_counted(calibration.tasks, calibration.families, calibration.chosen_tasks)
    return Sheet(
        heading=say("How often this suite cries wolf: " + _HOW[calibration.by], arms),
        overview=(
            f"{counted(calibration.trials, 'trial')} without a difference, each "
            f"{tasks} x {counted(calibration.repeats, 'repeat')} in both arms"
        ),
        lines=tuple(_lines(calibration)),
        tables=(_winners(calibration), _floor(calibration)),
        caveats=tuple(caveat.message for caveat in calibration.caveats),
        tool=calibration.tool,
    )


def _lines(calibration: Calibration) -> Iterator[SheetLine]:
    winners = calibration.false_winners
    yield SheetLine(
        label="WINNERS",
        text=say(
            "where there is none, the gates name one in {}, the evidence in {}, the margin rule "
            "in {} of trials",
            *(f"{share.share:.1%}" for share in (winners.gates, winners.evidence, winners.margin)),
        ),
        first=True,
    )
    yield SheetLine(label="NOISE", text=_noise(calibration))
    drift = calibration.drift
    yield SheetLine(
        label="DRIFT",
        text=say("not known: too few repeats, or nothing varies")
        if drift.p is None
        else say(
            "first and second halves of the repeats differ {} (p = {})",
            "more than chance allows for"
            if drift.beyond_chance
            else "no more than chance allows for",
            f"{drift.p:.3f}",
        ),
    )


def _noise(calibration: Calibration) -> Sentence:
    ratios = [
        f"{size:.0%} in {BY_NAME[name].label}"
        for name, size in calibration.noise_floor.items()
        if name != SUCCESS.name
    ]
    passed = calibration.noise_floor.get(SUCCESS.name)
    if passed is not None:
        ratios.append(f"{passed * 100:.0f} points in success")
    if not ratios:
        return say("not known: nothing was measured")
    return say("differences below {} are noise on this suite", series(ratios))


def _winners(calibration: Calibration) -> Table:
    winners = calibration.false_winners
    shares: dict[str, Share] = {name: getattr(winners, name) for name in WAYS}
    return Table(
        name="winners",
        heading="Winners named where there is none",
        columns=(Column("by", "text"), Column("share of trials"), Column("low"), Column("high")),
        rows=tuple(
            (
                words(WAYS[name]),
                *(number(f"{value:.1%}", value) for value in (share.share, share.low, share.high)),
            )
            for name, share in shares.items()
        ),
        notes=("Low and high allow for suites like this one, not only for the number of trials.",),
    )


def _floor(calibration: Calibration) -> Table:
    rows = []
    for name, size in calibration.noise_floor.items():
        shown = f"{size * 100:.1f} points" if name == SUCCESS.name else f"{size:.1%}"
        rows.append((words(BY_NAME[name].label), number(shown, size)))
    if not rows:
        rows.append((words(NOT_MEASURED), number(NOT_MEASURED, None)))
    return Table(
        name="floor",
        heading="Noise floor: 95% of trials without a difference are below",
        columns=(Column("metric", "text"), Column("difference")),
        rows=tuple(rows),
    )
