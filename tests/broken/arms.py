"""Rules of runs with several arms: their order, their blocks, their reports and pages."""

from tests.broken.entry import Broken

SCHEDULE = "tests/run/test_schedule.py"
ARMS = "tests/run/test_arms.py"
PAGES = "tests/run_pages/test_pages.py::test_several_candidates_have_one_page_for_each_repeat"

SEVERAL_ARMS = [
    Broken(
        "each arm is in each place equally often",
        "_square",
        "names[(row + step) % len(names)] for step",
        "names[step] for step",
        SCHEDULE,
    ),
    Broken(
        "what is left of a square is drawn too",
        "_orders",
        "_square(task, arms, seed, 0)[:left]",
        "_square(task, arms, seed, 0)[:1] * left",
        SCHEDULE,
    ),
    Broken(
        "the odd start is a coin",
        "_square",
        'int.from_bytes(_draw(seed, "coin", number, task), "little")',
        "0",
        SCHEDULE,
    ),
    Broken(
        "each arm follows each other equally often",
        "_square",
        "(at + 1) // 2 if at % 2 else -(at // 2)",
        "at",
        SCHEDULE,
    ),
    Broken(
        "of an odd number of arms, squares have mirror images",
        "_orders",
        "if number % 2 else square",
        "if False else square",
        SCHEDULE,
    ),
    Broken("two arms stay in the order they had", "_square", "arms[::-1]", "arms[:]", SCHEDULE),
    Broken(
        "a block is every arm",
        "Frozen.blocks",
        "trials, arms = self.trials, 1 + len(self.candidates)",
        "trials, arms = self.trials, 2",
        SCHEDULE,
    ),
    Broken(
        "an earlier schedule has one candidate",
        "thaw",
        'document["candidates"] = [document.pop("candidate", None)]',
        "pass",
        SCHEDULE,
    ),
    Broken(
        "what is left of a block is next",
        "Loop._plan",
        "if 0 < len(left) < len(block):",
        "if len(left) == 1:",
        f"{ARMS}::test_what_is_left_of_a_block_runs_before_whole_blocks",
    ),
    Broken(
        "all arms of a block are paid for",
        "Loop._take",
        "self._budget.admits(len(self._waiting[0]))",
        "self._budget.admits(2)",
        f"{ARMS}::test_a_block_starts_only_if_all_its_arms_are_paid_for",
    ),
    Broken(
        "the first runs of every arm are looked at",
        "Loop._look_at_first",
        "FIRST * len(self._arms)",
        "FIRST * 2",
        f"{ARMS}::test_a_run_stops_only_if_the_first_runs_of_every_arm_cannot_be_read",
    ),
    Broken(
        "any two equal arms are no comparison",
        "suite_file._arms",
        "combinations(suite.arms.items(), 2)",
        "[tuple(suite.arms.items())[:2]]",
        "tests/run/test_suite.py",
    ),
    Broken(
        "no exit code for several, before anything is run",
        "refuse_exit_code",
        "len(candidates) > 1",
        "False",
        f"{ARMS}::test_an_exit_code_cannot_answer_for_two_and_nothing_is_run",
    ),
    Broken(
        "one candidate without a run is a row",
        "report_folder",
        "if baseline in absent or set(absent) == {*candidates}:",
        "if absent:",
        f"{ARMS}::test_a_candidate_without_a_run_has_a_row_that_says_so",
    ),
    Broken(
        "without any candidate there is nothing to score",
        "report_folder",
        "if baseline in absent or set(absent) == {*candidates}:",
        "if baseline in absent:",
        f"{ARMS}::test_without_a_run_of_the_baseline_or_of_any_candidate_there_is_nothing_to_score",
    ),
    Broken(
        "a folder of several candidates is scored for all",
        "OpenFolders.candidates",
        "agreed.pop() if len(agreed) == 1 else ()",
        "()",
        f"{ARMS}::test_score_of_the_folder_says_the_same_and_names_what_was_tested",
    ),
    Broken(
        "another baseline has other candidates",
        "_asked_of",
        'given.get("baseline") in (None, known.get("baseline"))',
        "True",
        f"{ARMS}::test_score_of_the_folder_says_the_same_and_names_what_was_tested",
    ),
    Broken(
        "several candidates share a level",
        "rehearse._smallest",
        "0.025 / candidates",
        "0.025",
        f"{ARMS}::test_a_dry_run_shows_the_order_of_all_arms",
    ),
    Broken(
        "a page has the runs of every arm",
        "plan_pages",
        'if which == "all" or key in flips:',
        'if which == "all" or number in flips.get(key, ()):',
        PAGES,
    ),
    Broken(
        "flips are told by candidate",
        "pages._changes",
        "if record and len(page.rows) > 2",
        "if False",
        PAGES,
    ),
    Broken(
        "several candidates are tested on the models of all",
        "tested_together",
        "for subject in subjects for model in subject.models",
        "for model in subjects[0].models",
        "tests/result/test_tested.py::test_several_candidates_are_tested_on_what_each_of_them_was",
    ),
    Broken(
        "the baseline is counted beside each candidate",
        "candidates._of_the_baseline",
        'if len(trials) > 1 else ""',
        'if False else ""',
        "tests/result/test_over_budget.py::test_a_pair_counts_whatever_became_of_a_third_arm",
    ),
]
