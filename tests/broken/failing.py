"""Rules of why runs failed: reasons, acceptance all the same, and limits that decide."""

from tests.broken.entry import Broken

FAILURES = "tests/explain/test_failures.py"
EXITS = f"{FAILURES}::test_exit_codes_tell_what_the_record_does_not"
WORDS = f"{FAILURES}::test_a_reason_in_words_has_a_code"
LOOP = f"{FAILURES}::test_the_counts_are_those_of_a_loop_over_the_records"
MOST = f"{FAILURES}::test_a_budget_that_makes_most_of_the_difference_is_the_first_caveat"
HALF = f"{FAILURES}::test_limits_decide_from_half_of_the_difference_on"
TURNED = f"{FAILURES}::test_limits_that_turn_the_gate_decide_success"
MANY = f"{FAILURES}::test_very_many_reasons_are_kept_by_their_kind"
ALWAYS = f"{FAILURES}::test_tasks_that_always_pass_or_always_fail_are_named"
REPORTS = f"{FAILURES}::test_every_report_says_how_many_failed_and_why"
FAILED_LINE = "tests/render/test_failed_line.py"

FAILING = [
    Broken("a reason in words comes before exit codes", "why_failed", 'if code not in ("other", "not_given"):', "if False:", EXITS),
    Broken("an exit code of the agent tells a crash", "why_failed", "if exited == FAILED:", "if False:", EXITS),
    Broken("an exit code of acceptance tells why", "why_failed", 'return "acceptance" if accepted == FAILED else code', "return code", EXITS),
    Broken("acceptance that never ran tells nothing", "_ACCEPTED", "{**_EXITED, NEVER_RAN_EXIT_CODE: NOTHING_TOLD}", "{**_EXITED}", EXITS),
    Broken("the older exit code tells where the newer does not", "EndingBuilder.add", "new or old for new, old in", "old or new for new, old in", EXITS),
    Broken("the older exit code is read", "EndingBuilder.add", 'if "opencode_exit_code" in columns:', "if False:", EXITS),
    Broken("a tag says that a failed run passed", "EndingBuilder.add", "PASSED_DESPITE_FAILURE in codes", "False", EXITS),
    Broken("tags are a list", "EndingBuilder.add", "isinstance(codes, list | tuple) and PASSED_DESPITE_FAILURE in codes", "PASSED_DESPITE_FAILURE in (codes or ())", EXITS),
    Broken("an exit code of acceptance is believed before a tag", "EndingBuilder.add", "self._accepted[row] = self._accepted[row] or PASSED", "self._accepted[row] = PASSED", EXITS),
    Broken("success that counts as failed passed", "failures._of_arm", "accepted[(accepted == NOTHING_TOLD) & (runs.success[rows] > 0)] = PASSED", "pass", EXITS),
    Broken("an exit code of acceptance is believed before success", "failures._of_arm", "(accepted == NOTHING_TOLD) & (runs.success[rows] > 0)", "runs.success[rows] > 0", EXITS),
    Broken("a reason without a failure is read", "_all_fine", "if not {*reason} <= {None, UNSET}:", "if False:", EXITS),
    Broken("only runs that failed have a reason", "failures._of_arm", "rows = arm.rows[arm.values[SUCCESS.name] == 0]", "rows = arm.rows", LOOP),
    Broken("kinds of endings are told apart", "failures._of_arm", "outcome, exited, acceptance = runs.outcomes[kind // 9], kind // 3 % 3, kind % 3", "outcome, exited, acceptance = runs.outcomes[kind // 9], kind % 3, kind // 3 % 3", LOOP),
    Broken("an infra failure that counts is called so", "failures._of_arm", 'if outcome.failure == "infra":', "if False:", f"{FAILURES}::test_infra_failures_that_count_are_a_reason_of_their_own"),
    Broken("the most frequent reason comes first", "failures._of_arm", "(-counts[code], FAILURE_CODES.index(code))", "FAILURE_CODES.index(code)", f"{FAILURES}::test_reasons_come_by_their_number_and_keep_their_words"),
    Broken("a reason is not kept at any length", "_most_frequent", "text=shortened(text, _WIDTH)", "text=text", f"{FAILURES}::test_reasons_come_by_their_number_and_keep_their_words"),
    Broken("marks and case do not matter in a reason", "_squeezed", 're.sub(r"[\\W_]+", "", text.lower())', "text.lower()", WORDS),
    Broken("a deadline is no context", "_PARTS", '"context": _OVERFLOW,', '"context": ("context",),', WORDS),
    Broken("very many reasons are not kept", "Builder._new_outcome", 'if many and failure in (None, "agent"):', "if False:", MANY),
    Broken("why a run is excluded is always kept", "Builder._new_outcome", 'if many and failure in (None, "agent"):', "if many:", MANY),
    Broken("a crash is no limit", "LIMITS", '{"timeout", "budget", "output_limit", "memory_limit", "turn_limit"}', '{"timeout", "budget", "output_limit", "memory_limit", "turn_limit", "crash"}', f"{FAILURES}::test_a_crash_is_no_limit"),
    Broken("a memory limit has a code", "endings._PARTS", '("memorylimit",)', "()", FAILURES),
    Broken("a budget is a limit", "LIMITS", '{"timeout", "budget", "output_limit", "memory_limit", "turn_limit"}', '{"timeout", "output_limit", "memory_limit", "turn_limit"}', MOST),
    Broken("limits decide where the gate would stand otherwise", "failures._by_acceptance", "alone.standing != gate.standing or", "", TURNED),
    Broken("limits decide where half of the difference goes", "failures._by_acceptance", "or 0 < 2 * abs(then) <= abs(now)", "", HALF),
    Broken("limits do not decide where most of the difference stays", "failures._by_acceptance", "0 < 2 * abs(then) <= abs(now)", "abs(then) <= abs(now)", HALF),
    Broken("what limits decide is the first caveat of all", "SERIOUS", '"limits_decide_success",\n    "separate_time_blocks",\n    "order_unknown",\n    "arms_look_swapped",', '"arms_look_swapped",\n    "limits_decide_success",\n    "separate_time_blocks",\n    "order_unknown",', f"{FAILURES}::test_limits_that_decide_come_before_arms_that_look_swapped"),
    Broken("limits that decide are to be raised first", "_BEFORE_FIGURES", '"limits_decide_success": step(', '"limits": step(', MOST),
    Broken("a task of one arm alone always does nothing", "find_failures", "if task.candidate.runs and task.baseline.runs]", "]", ALWAYS),
    Broken("a task that always passes does so in both arms", "_with_rate", "for arm in (task.candidate, task.baseline)", "for arm in (task.candidate,)", ALWAYS),
    Broken("the page says how many failed", "_banner", 'if summary.failed else ""', 'if False else ""', REPORTS),
    Broken("JUnit says how many failed", "junit._suite", 'properties["failed"] = failed', "pass", REPORTS),
    Broken("a reason in a table of Markdown ends no cell", "markdown._cell", 'return text.replace("|", "\\\\|")', "return text", f"{FAILURES}::test_a_hostile_reason_is_harmless_everywhere"),
    Broken("an arm without runs has no failures to tell", "failed_said", "if arm.runs", "if True", f"{FAILURES}::test_an_arm_without_a_failure_and_one_without_a_run_are_told_apart"),
    Broken("what is left of the screen goes to failures", "_Screen.first", "for number in (3, 2, 3, 1, 0):", "for number in (2, 1, 0):", f"{FAILURES}::test_failures_are_one_line_and_say_of_how_many_where_that_fits"),
    Broken("a line that no step fits into goes to failures", "_Screen.first", "for number in (3, 2, 3, 1, 0):", "for number in (3, 2, 1, 0):", FAILED_LINE),
    Broken("failures of arms that are far apart are said of how many", "failed_said", "brief = brief and fewer >= _ALIKE * more", "", FAILED_LINE),
]  # fmt: skip
