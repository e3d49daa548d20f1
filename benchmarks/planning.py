"""Plans and calibrations, simulated: what was promised, and what the verdicts then said.

A plan's power is held against the share of simulated verdicts; a plan made from a pilot against
the power that its design really has; a calibration against fresh runs of two equal arms.
"""

import math

import msgspec
import numpy as np
from scipy import stats

from benchmarks.verdicts import MARGINS, ROLES, Arms, frame, runs_of, success_shift, trial, verdict
from twoarm.compare.decide import decide, figures, judge
from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.pilot import Pilot, lacking, pilot_of
from twoarm.evidence.power import Aim, Design, Outlook, UnitCosts, shared_level
from twoarm.planning.calibration import FLOOR, Pool, deal, winners
from twoarm.planning.planner import Planner
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION, JUDGED, SUCCESS, Metric

POWER = 0.8
# So many tasks, and runs, stand for all there could be.
MANY_TASKS, MANY_RUNS = 4_000, 400_000
# A calibration is made on one suite of so many that are drawn, with so many trials.
SUITES_OF, TRIALS = 20, 200

PLANNED = {
    "PL1 -10% in duration": Arms(duration=math.log(0.9)),
    "PL2 -20% in duration": Arms(duration=math.log(0.8)),
}
PLANNED_SUCCESS = {
    "PL3 more success": Arms(success_effect=(0.9, 0.5)),
    "PL4 less success": Arms(success_effect=(-0.6, 0.5)),
}
SMALL_PILOTS = {"PL5 -20% in duration, from a small pilot": Arms()}
PILOTS = {
    "PL6 -10% in duration, from a pilot": Arms(duration=math.log(0.9)),
    "PL7 +5 points of success, from a pilot": Arms(success_effect=(success_shift(0.05), 0.5)),
}
CALIBRATED = {
    "Z1 some tasks fail": Arms(success_effect=(0.0, 0.0), task_sd=0.0),
    "Z2 everything passes": Arms(success=None, task_sd=0.0),
}


def everything(metric: Metric, repeats: int) -> Pilot:
    """What a pilot of all tasks would say, none of which is used up by it."""
    draw = np.random.default_rng([43, repeats])
    found = pilot_of(runs_of(trial(Arms(), MANY_TASKS, repeats, draw).values), metric)
    return msgspec.structs.replace(found, tasks=0, repeats=0)


def outlook(pilot: Pilot, change: float) -> Outlook:
    return Outlook(pilot=pilot, aim=Aim(change=change, alpha=0.05, power=POWER, first=False))


def planner(pilot: Pilot, change: float) -> Planner:
    return Planner(outlook(pilot, change), UnitCosts(pair=1.0, task=0.0), 1)


def plan_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """How often the change is clear, as planned and as it turns out."""
    arms = {**PLANNED, **PLANNED_SUCCESS}[name]
    metric = DURATION if name in PLANNED else SUCCESS
    draw = np.random.default_rng([47, len(name), tasks, repeats])
    if metric is DURATION:
        change = arms.duration
    else:
        drawn = trial(arms, MANY_RUNS, 1, draw).values[SUCCESS.name]
        change = float(drawn[0].mean() - drawn[1].mean())
    wanted = "better" if (change > 0) == (metric is SUCCESS) else "worse"
    clear = 0
    for _ in range(datasets):
        found = verdict(runs_of(trial(arms, tasks, repeats, draw).values))
        standings = {finding.metric: finding.standing for finding in found.findings}
        clear += standings[metric.name] == wanted
    said = planner(everything(metric, repeats), change).power(Design(tasks=tasks, repeats=repeats))
    return {
        "clear in simulated verdicts": [clear, datasets],
        "power by twoarm plan": [round(said * datasets, 1), datasets],
    }


def small_pilot_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """How often the design that was planned has the power that was asked for."""
    draw = np.random.default_rng([53, tasks, repeats])
    change = PLANNED["PL2 -20% in duration"].duration
    truly = outlook(everything(DURATION, repeats), change)
    reached = [0, 0]
    for _ in range(datasets):
        runs = runs_of(trial(SMALL_PILOTS[name], tasks, repeats, draw).values)
        assert all(lacking(one) is None for one in runs if one.metric is DURATION)
        pilot = pilot_of(runs, DURATION)
        for way, found in enumerate((pilot, pilot.with_upper_limits())):
            count = int(outlook(found, change).tasks_for(repeats, tasks)[0])
            reached[way] += float(truly.power(count, repeats)) >= POWER
    return {
        "reaches 80% power, spreads as seen": [reached[0], datasets],
        "reaches 80% power, upper limits": [reached[1], datasets],
    }


def pilot_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """How often the recommended design has the power that was asked for, and what that costs."""
    draw = np.random.default_rng([67, len(name), tasks, repeats])
    arms = PILOTS[name]
    metric, change = (DURATION, arms.duration) if arms.duration else (SUCCESS, 0.05)
    truth = _Truth(arms, metric, change, repeats)
    reached, power, ratios = np.zeros(2), np.zeros(2), []
    for _ in range(datasets):
        pilot = pilot_of(runs_of(trial(arms, tasks, repeats, draw).values), metric)
        more_runs = []
        for way, known in enumerate((pilot, pilot.with_upper_limits())):
            plans = planner(known, change)
            design = plans.cheapest(tasks)
            assert design is not None
            true_power = truth.power(design)
            reached[way] += true_power >= POWER
            power[way] += true_power
            more_runs.append(plans.usd(design))
        ratios.append(more_runs[1] / more_runs[0])
    fewest = truth.fewest_tasks(repeats)
    clear = sum(
        truth.clear(runs_of(trial(arms, fewest, repeats, draw).values)) for _ in range(datasets)
    )
    return {
        "reaches 80% power, expected": [int(reached[0]), datasets],
        "reaches 80% power, to be sure": [int(reached[1]), datasets],
        "true power on average, expected": [round(power[0], 1), datasets],
        "true power on average, to be sure": [round(power[1], 1), datasets],
        "runs to be sure, of those expected (median)": [
            round(float(np.median(ratios)) * datasets, 1),
            datasets,
        ],
        "clear in simulated verdicts with the fewest tasks that reach it": [clear, datasets],
    }


class _Truth:
    """What a design really has: the tail of the noncentral t, with the variances of many tasks."""

    def __init__(self, arms: Arms, metric: Metric, change: float, repeats: int) -> None:
        drawn = trial(arms, MANY_RUNS // repeats, repeats, np.random.default_rng([71, repeats]))
        many = pilot_of(runs_of(drawn.values), metric)
        self._run, self._task = many.run_variance[many.at], many.task_variance[many.at]
        self._metric, self._change = metric, change
        self._level = shared_level(many.correlation.tobytes(), len(many.metrics), 0.05)

    def power(self, design: Design) -> float:
        freedom = design.tasks - 1
        error = math.sqrt((self._task + self._run / design.repeats) / design.tasks)
        bound = stats.t.ppf(1.0 - self._level / 2.0, freedom)
        return float(stats.nct.sf(bound, freedom, abs(self._change) / error))

    def fewest_tasks(self, repeats: int) -> int:
        tasks = 12
        while self.power(Design(tasks=tasks, repeats=repeats)) < POWER:
            tasks += 1
        return tasks

    def clear(self, runs: list[TaskRuns]) -> bool:
        findings = {finding.metric: finding.standing for finding in verdict(runs).findings}
        return findings[self._metric.name] == "better"


def calibrate_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """Winners named where there is none: by a calibration of each suite, and on fresh runs."""
    draw = np.random.default_rng([59, len(name), tasks, repeats])
    arms, half = CALIBRATED[name], repeats // 2
    suites = max(2, datasets // SUITES_OF)
    shares, floors = np.empty((suites, 3)), np.empty(suites)
    for suite in range(suites):
        values = trial(arms, tasks, repeats, draw).values
        pool = Pool(
            task=np.repeat(np.arange(tasks), repeats),
            values={metric.name: values[metric.name][1].ravel() for metric in JUDGED},
            deal=np.full((2, tasks), half),
        )
        found = deal(pool, TRIALS, msgspec.structs.replace(frame(), seed=suite), MARGINS)
        shares[suite] = [found.gates.mean(), found.evidence.mean(), found.margin.mean()]
        floors[suite] = found.noise_floor()[DURATION.name]
    named, away = _fresh(arms, tasks, half, datasets, draw)
    rows: dict[str, list[float]] = {}
    for column, way in enumerate(("gates", "evidence", "margin rule")):
        rows[f"{way}: calibrations"] = [
            round(float(shares[:, column].mean()) * datasets, 2),
            datasets,
        ]
        rows[f"{way}: fresh runs"] = [round(float(named[:, column].mean()) * datasets, 2), datasets]
        # Twice what suites differ by, beyond the error of the trials.
        noise = shares[:, column] * (1.0 - shares[:, column]) / TRIALS
        between = max(0.0, float(shares[:, column].var(ddof=1) - noise.mean())) ** 0.5
        rows[f"{way}: twice the spread between suites"] = [
            round(2 * between * datasets, 2),
            datasets,
        ]
    rows["noise floor of duration: calibrations"] = [
        round(float(floors.mean()) * datasets, 2),
        datasets,
    ]
    truth = float(np.quantile(away, FLOOR))
    rows["noise floor of duration: fresh runs"] = [round(truth * datasets, 2), datasets]
    return rows


def _fresh(
    arms: Arms, tasks: int, repeats: int, datasets: int, draw: np.random.Generator
) -> tuple[Floats, Floats]:
    """Winners by gates, evidence and margins on fresh runs, and how far apart durations are."""
    named, away = np.zeros((datasets, 3)), np.empty(datasets)
    for number in range(datasets):
        values = trial(arms, tasks, repeats, draw).values
        sides = [
            figures({metric.name: values[metric.name][arm].ravel() for metric in JUDGED})
            for arm in (0, 1)
        ]
        runs = runs_of(values)
        named[number] = (
            decide(judge(sides[0], sides[1]), ROLES).kind in ("candidate", "baseline"),
            *winners(runs, frame(), MARGINS),
        )
        deltas = next(one.deltas for one in runs if one.metric is DURATION)
        away[number] = math.expm1(abs(float(deltas.mean())))
    return named, away
