"""Rules of scores and checks."""

from tests.broken.entry import Broken

SCORES = "tests/evidence/test_scores.py"

SCORED = [
    Broken("a score that is missing is no zero", "_arm_runs", 'numbers["score"] = runs.score[rows]', 'numbers["score"] = np.nan_to_num(runs.score[rows])', SCORES),
    Broken("scores over other tasks take six", "score_estimate", "if estimate.tasks_like_these is None or count >= FEWEST_TASKS:", "if True:", SCORES),
    Broken("a bounded mean is over the tasks that both arms have", "bounded_estimate", "deltas, sizes = runs.independent, runs.sizes[:, runs.shared]", "deltas, sizes = np.nan_to_num(runs.deltas), runs.sizes[:, runs.shared]", SCORES),
    Broken("the spread is that of the tasks both arms have", "bounded_estimate", "error = within_tasks(runs.spreads[:, runs.shared], sizes, weights)", "error = within_tasks(runs.spreads[:, : sizes.shape[1]] * 0.5, sizes, weights)", SCORES),
    Broken("scores have no ratio", "cells.BOUNDED", "BOUNDED = (SUCCESS, SCORE)", "BOUNDED = (SUCCESS,)", SCORES),
    Broken("the mean score of an arm is over shared tasks", "evidence.scores._mean", "np.where(runs.shared, means, np.nan)", "means", SCORES),
    Broken("missing scores are those of counted runs", "weigh_scores", "(ours.runs - ours.scored, theirs.runs - theirs.scored),", "(0, 0),", SCORES),
    Broken("a better score alone makes nobody better", "grade.grade", 'if named is not None and named.standing == "worse":\n        standings.add("worse")', "if named is not None:\n        standings.add(named.standing)", SCORES),
    Broken("a worse score that was named first counts", "grade.grade", 'standings.add("worse")', "pass", SCORES),
    Broken("nothing is clear after a score that cannot be tested", "weigh._measured", "scored = has_scores(comparison) or options.primary == SCORE.name", "scored = has_scores(comparison)", SCORES),
    Broken("a score is tested first at a look", "at_look", "tested = [column for column in range(len(runs)) if column in tests.adjusted]", "tested = [column for column in _GATED if column in tests.adjusted]", SCORES),
    Broken("a clear score is no clear gate", "weigh._looks", "elif not tests.clear.keys() & set(_GATED) and", "elif not tests.clear and", SCORES),
    Broken("checks are tested together", "evidence.scores._checks", "adjusted = signs_of_tasks(tested, frame.seed).adjusted(range(len(compared)))", "adjusted = {place: signs_of_tasks(tested, frame.seed).p(place) or 1.0 for place in range(len(compared))}", SCORES),
    Broken("a check of few tasks is not tested", "evidence.scores._checks", "tested[(~np.isnan(deltas)).sum(axis=1) < frame.fewest_tasks] = np.nan", "pass", SCORES),
    Broken("the checks that most tasks have are compared", "evidence.scores._checks", "key=lambda code: (-tasks_of[code], names[code]))[:MOST_COMPARED]", "key=lambda code: (tasks_of[code], names[code]))[:MOST_COMPARED]", SCORES),
    Broken("what differs clearly comes first", "evidence.scores._checks", "key=lambda shift: (not shift.differs, -abs(shift.difference), shift.check)", "key=lambda shift: (-abs(shift.difference), shift.check)", SCORES),
    Broken("ten checks are listed", "evidence.scores._checks", "largest=tuple(shifts[:LARGEST])", "largest=tuple(shifts)", SCORES),
    Broken("a check that nobody knows is no failure", "evidence.scores._shares", "known = (cell_of[columns.row] >= 0) & ~np.isnan(columns.passed)", "known = cell_of[columns.row] >= 0", SCORES),
    Broken("a check is compared where both arms have it", "evidence.scores._shares", "ours = np.flatnonzero((keys[:-1] % 2 == 0) & (keys[1:] == keys[:-1] + 1))", "ours = np.flatnonzero(keys[:-1] % 2 == 0)", SCORES),
    Broken("scores that one arm lacks are a caveat", "evidence_caveats", "yield from _on_scores(evidence, comparison)", "", SCORES),
    Broken("a score is shown where there is one", "summary._amounts", "if evidence is not None and SCORE.name in evidence.deltas and evidence.scores is not None:", "if False:", "tests/render/test_scores.py"),
    Broken("names of checks are escaped", "_check_row", "words(Name(shift.check))", "words(shift.check)", SCORES),
    Broken("the chart says that scores are in points", "_in_points", "scored = any(amount.points and amount.gate is None for amount in drawn)", "scored = False", "tests/render/test_scores.py"),
    Broken("scores that are missing are counted", "result.caveats.caveats", "*_on_missing_scores(comparison),", "", SCORES),
    Broken("nobody misses a score where there are none", "_on_missing_scores", "has_scores(comparison) and any(missing)", "any(missing)", SCORES),
]  # fmt: skip
