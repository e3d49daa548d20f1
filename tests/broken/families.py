"""Rules of families of tasks."""

from tests.broken.entry import Broken

FAMILY = "tests/evidence/test_families.py"
NAMED = "tests/compare/test_families.py"
PLANNED = "tests/planning/test_planned_families.py"
SAID = "tests/render/test_families_said.py"

FAMILIES = [
    Broken("families weigh alike", "family_means", "mean[:] = np.bincount(of, values, count) / np.bincount(of, minlength=count)", "mean[:] = np.bincount(of, values, count)", f"{FAMILY}::test_a_ratio_is_a_t_interval_over_family_means"),
    Broken("tasks weigh alike in a family on these very tasks", "TaskRuns.weights", "1.0 / (np.count_nonzero(sizes) * sizes[family])", "np.full(count, 1.0 / count)", f"{FAMILY}::test_on_these_very_tasks_tasks_weigh_as_in_the_mean"),
    Broken("labels are exchanged with the weights of the mean", "Layout.weights", "count / self.families / np.bincount(self.family)[self.family]", "np.ones(count)", f"{FAMILY}::test_labels_on_these_very_tasks_have_the_weights_of_the_mean"),
    Broken("signs are those of families", "headline_tests", "deltas = np.array([measure.family_deltas for measure in runs])", "deltas = np.array([measure.deltas for measure in runs])", f"{FAMILY}::test_the_signs_of_whole_families_are_exchanged"),
    Broken("the rule of six is about families", "headline_tests", "if layout.families >= frame.fewest_tasks:", "if len(layout.tasks) >= frame.fewest_tasks:", f"{FAMILY}::test_below_six_families_the_headline_is_these_tasks"),
    Broken("one family says nothing about others", "mean_estimate", "if count == 1:", "if sizes.shape[1] == 1:", f"{FAMILY}::test_one_family_says_nothing_about_other_tasks"),
    Broken("arm medians are over families", "arm_medians.arm_medians", "if ours.family is not None:", "if False:", f"{FAMILY}::test_a_family_is_as_one_task_with_all_its_runs"),
    Broken("medians are over families", "medians.tasks_like_these", "deltas = deltas.by_family", "deltas = deltas", f"{FAMILY}::test_a_family_is_as_one_task_with_all_its_runs"),
    Broken("the bootstrap draws families", "deltas._bootstrap_mean", "pairs.noun, pairs.by_family", "pairs.noun, pairs", f"{FAMILY}::test_a_family_is_as_one_task_with_all_its_runs"),
    Broken("a solved task leaves out families", "per_solved._ratio_over_tasks", "(side.by_family for side in arms)", "(side for side in arms)", f"{FAMILY}::test_a_family_is_as_one_task_with_all_its_runs"),
    Broken("a solved task of an arm leaves out families", "per_solved._arm_over_tasks", "side = side.by_family", "side = side", f"{FAMILY}::test_a_family_is_as_one_task_with_all_its_runs"),
    Broken("looks exchange families", "looks.look", "measure.among(kept).family_deltas", "measure.among(kept).deltas", f"{FAMILY}::test_looks_exchange_the_signs_of_families"),
    Broken("candidates are tested over families", "several._by_family", "return deltas if family is None else family_means(deltas, family)", "return deltas", f"{FAMILY}::test_several_candidates_are_tested_over_families"),
    Broken("the effect where it was used is over families", "find_where_used", "uses.independent", "uses.deltas[uses.shared]", f"{FAMILY}::test_the_effect_where_it_was_used_is_over_families"),
    Broken("checks are over families", "evidence.scores._checks", "deltas = layout.over_families(deltas)", "pass", f"{FAMILY}::test_scores_and_checks_are_over_families"),
    Broken("calls are compared over families", "_Calls._by_task", "return calls if self._family is None else family_means(calls, self._family)", "return calls", f"{FAMILY}::test_calls_of_tools_are_compared_over_families"),
    Broken("families are drawn again", "decision_stability", "drawn = _their_tasks(family)[drawn].reshape(count, -1)", "pass", f"{FAMILY}::test_the_decision_is_tried_on_families_drawn_again"),
    Broken("how many could break is asked of families", "broken_tasks", "independent = int(watched.sum()) if family is None else len(np.unique(family[watched]))", "independent = int(watched.sum())", f"{FAMILY}::test_how_many_could_break_is_asked_over_families"),
    Broken("families of one task each are none", "cells.places", "return None if len(codes) == len(tasks) else place.ravel()", "return place.ravel()", f"{FAMILY}::test_families_of_one_task_each_are_no_families"),
    Broken("the option comes before the records", "find_families", "if regex is not None:", "if regex is not None and not runs.families.names:", f"{NAMED}::test_the_option_comes_before_the_records"),
    Broken("two families are refused", "find_families", "if problems.count:", "if False:", f"{NAMED}::test_two_families_of_one_task_are_an_error_that_says_where"),
    Broken("a check finds two families", "check.check", "*two_families(runs))", ")", f"{NAMED}::test_two_families_of_one_task_are_an_error_that_says_where"),
    Broken("an expression that finds nothing is refused", "families._matched", "if not names:", "if False:", f"{NAMED}::test_an_expression_that_finds_no_family_is_refused"),
    Broken("an expression has a group", "Options._check_family", "if not groups:", "if False:", f"{NAMED}::test_an_expression_that_finds_no_family_is_refused"),
    Broken("a task without a match is a family of its own", "families._families", "of = np.arange(len(runs.tasks))", "of = np.zeros(len(runs.tasks), dtype=int)", f"{NAMED}::test_a_task_that_does_not_match_is_a_family_of_its_own"),
    Broken("two prefixes look like families", "families.prefixes", "2 <= len(shared)", "1 <= len(shared)", f"{NAMED}::test_other_ids_are_not"),
    Broken("prefixes of half of the tasks look like families", "families.prefixes", "2 * sum(shared.values()) >= len(names)", "True", f"{NAMED}::test_other_ids_are_not"),
    Broken("who names families is not told to", "caveats._on_families", "{} if comparison.families.given else", "", f"{NAMED}::test_nothing_is_said_where_families_are_named"),
    Broken("a record tells the family of its task", "report._completed", '"family": families.get(trial.task),', "", "tests/run/test_family.py"),
    Broken("a table tells the family of a task", "collect.settle.settle", "family=attempt.family,", "", "tests/programs/test_table_family.py"),
    Broken("an empty cell is no family", "table.record._attempt", 'family=row.text("family") or None,', 'family=row.text("family"),', "tests/programs/test_table_family.py"),
    Broken("a pilot counts families", "pilot_of", "tasks=len(deltas),", "tasks=tasks,", PLANNED),
    Broken("the mean of a family has less noise", "pilot._shrunk", "float((1.0 / np.bincount(family)).mean())", "1.0", PLANNED),
    Broken("a family costs several tasks", "plan._prices", "UnitCosts(pair=each * (basis.pair_usd or 1e-9), task=each * options.task_cost)", "UnitCosts(pair=basis.pair_usd or 1e-9, task=options.task_cost)", PLANNED),
    Broken("looks count the families of a suite", "refuse_in_vain", "can_be_clear(families or tasks,", "can_be_clear(tasks,", "tests/run/test_looks.py::test_looks_count_the_families_of_a_suite"),
    Broken("both arms of a check are weighed by family", "evidence.scores._checks", "for arm in layout.over_families(each)]", "for arm in each]", f"{SAID}::test_both_arms_of_checks_and_scores_are_weighed_as_their_difference"),
    Broken("both arms of a score are weighed by family", "evidence.scores._mean", "runs.layout.over_families(", "(", f"{SAID}::test_both_arms_of_checks_and_scores_are_weighed_as_their_difference"),
    Broken("an overview of candidates says which tasks it is for", "candidates._whose", "if len(scopes) == 1", "if False", f"{SAID}::test_an_overview_of_candidates_says_which_tasks_it_is_for"),
    Broken("half an interval is not shown", "_Screen.first", "scope if most[4] >= len(scope) else", "self._cut(scope, most[4]) if scope else", f"{SAID}::test_an_interval_is_never_cut_in_half"),
    Broken("a calibration deals with families", "calibration.deal", "family=pool.family)", ")", PLANNED),
]  # fmt: skip
