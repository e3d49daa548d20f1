"""Rules of grading: what a run left is put back whole, and two graders are not compared."""

from tests.broken.entry import Broken

PUT_BACK = "tests/run/test_put_back.py"
REGRADE = "tests/run/test_regrade.py"
GRADERS = "tests/compare/test_graders.py"
CAVEATS = "tests/result/test_caveats.py"
TOGETHER = "tests/run/test_together.py"

GRADING = [
    Broken("a patch gives what was left, or is none", "put_back.put_back", "if content is not None and _content(work, path) != content:", "if False:", f"{PUT_BACK}::test_a_patch_that_gives_something_else_is_told"),
    Broken("a patch that does not apply is told", "put_back.put_back", "if git(_APPLY, variables, work, patch.fileno(), told.fileno()):", "if git(_APPLY, variables, work, patch.fileno(), told.fileno()) and False:", f"{PUT_BACK}::test_a_patch_that_does_not_apply_is_told_and_nothing_is_judged"),
    Broken("nothing is judged that was not put back", "main._taken", 'ready, facts["not_put_back"] = False, why', 'facts["not_put_back"] = why', PUT_BACK),
    Broken("settings of a workspace change nothing that is put back", "put_back.put_back", '"GIT_DIR": place.at("git"),', '"GIT_DIR": work.at(".git"),', f"{PUT_BACK}::test_settings_in_the_workspace_do_not_change_what_is_put_back"),
    Broken("no second patch of what was put back", "_checked", 'if base is not None and attempt.job["argv"]:', "if base is not None:", f"{PUT_BACK}::test_what_was_put_back_is_what_the_agent_left"),
    Broken("two graders are not compared", "refuse_two_graders", "if problems.count:", "if False:", GRADERS),
    Broken("who does not say is compared with any", "find_two_graders", "grader is not None for grader", "True for grader", GRADERS),
    Broken("tasks have graders of their own", "find_two_graders", "seen.setdefault(int(runs.task[row]), row)", "seen.setdefault(0, row)", GRADERS),
    Broken("only runs that count need one grader", "refuse_two_graders", "np.concatenate([arm.rows for arm in screening.arms])", "np.arange(len(runs))", GRADERS),
    Broken("a check finds two graders", "check.check", "*graders, *differing", "*differing", GRADERS),
    Broken("the content of files is in the digest", "grader_of", "restored = sorted({_digest_of_files(tree, paths) for tree in trees})", "restored: list[str] = []", f"{REGRADE}::test_a_grader_is_one_for_all_arms_and_sees_content"),
    Broken("one grader for all arms", "grader_of", "sorted({_digest_of_files(tree, paths) for tree in trees})", "[_digest_of_files(tree, paths) for tree in trees]", f"{REGRADE}::test_a_grader_is_one_for_all_arms_and_sees_content"),
    Broken("a limit is part of a grader", "_OF_LIMITS", '("acceptance_seconds",)', "()", f"{REGRADE}::test_whatever_acceptance_uses_is_in_its_digest"),
    Broken("variables are part of a grader", "_OF_BOTH", '("env",)', "()", f"{REGRADE}::test_a_grader_is_one_for_all_arms_and_sees_content"),
    Broken("what acceptance does not use may not change", "regrade._set_up", "refuse_all_but_acceptance(then, frozen)", "", f"{REGRADE}::test_whatever_else_has_changed_is_refused_by_its_key"),
    Broken("trees to grade in are those of then", "Regrading.prepare", 'if key.startswith("trees.") and now != then:', "if False:", f"{REGRADE}::test_trees_that_are_not_those_of_then_are_refused"),
    Broken("half a patch is left alone", "Graded.why_not", 'if patch["complete"]:', "if True:", f"{REGRADE}::test_a_run_whose_patch_is_incomplete_is_named_and_left_as_it_was"),
    Broken("a file that was cut is no file of then", "Graded.why_not", "if folder.size(name) != size:", "if False:", f"{REGRADE}::test_a_patch_that_was_changed_is_named_and_its_run_left"),
    Broken("what was not put back is left", "Regrading._settled", 'if "not_put_back" in facts:', "if False:", f"{REGRADE}::test_a_patch_that_was_changed_is_named_and_its_run_left"),
    Broken("a failure of the agent outlives its acceptance", "settle.regraded", "success = reading.run.success", 'success = facts["acceptance_exit_code"] == 0', f"{REGRADE}::test_where_nothing_changed_every_record_is_the_same_and_the_source_untouched"),
    Broken("attempts without a run are carried over", "Regrading.run", "self._carry_over()", "", f"{REGRADE}::test_where_nothing_changed_every_record_is_the_same_and_the_source_untouched"),
    Broken("the old acceptance is forgotten", "Regrading._settled", "{**agent, **graded, **at}", "{**graded, **dict(_facts(run)), **at}", f"{REGRADE}::test_a_mended_acceptance_command_changes_verdicts_and_nothing_else"),
    Broken("a folder at work is left alone", "Graded.__init__", "if self.folder.held_by_another():", "if False:", f"{REGRADE}::test_a_folder_at_work_is_refused"),
    Broken("the source stays as it is", "start_regrading", "if lies_in(out, path):", "if False:", f"{REGRADE}::test_a_folder_that_is_none_of_it_is_refused_in_one_line"),
    Broken("runs of two folders are not mixed", "regrade._begun", "if earlier.schedule_sha256 != source.digest:", "if False:", f"{REGRADE}::test_a_folder_that_is_none_of_it_is_refused_in_one_line"),
    Broken("runs that were left as they were are known", "studies.open_study", "(r.trial for r in runs if NOT_REGRADED in r.facts)", "()", f"{REGRADE}::test_a_patch_that_was_changed_is_named_and_its_run_left"),
    Broken("runs that were left are those of the arms", "_on_grading", "if run.arm in comparison.arms.both", "if True", CAVEATS),
    Broken("runs that were left are those of the part", "_on_grading", "if parts is None or run.part in parts", "", CAVEATS),
    Broken("caveats that differ are said of each candidate", "render.candidates._serious", "serious.setdefault(caveat.message, [])", "serious.setdefault(caveat.message[:9], [])", CAVEATS),
    Broken("what is graded is not graded again", "Regrading.run", "if run is not None and trial.id not in done:", "if run is not None:", f"{REGRADE}::test_regrading_what_was_regraded_is_the_same_again"),
    Broken("a second Ctrl-C ends acceptance", "Regrading._go", 'if request == "kill":', "if False:", f"{REGRADE}::test_a_regrade_that_is_ended_goes_on_where_it_was"),
    Broken("nothing new starts after a Ctrl-C", "Regrading._go", 'while request == "go" and self._waiting', "while self._waiting", f"{REGRADE}::test_a_regrade_that_is_ended_goes_on_where_it_was"),
    Broken("a run is not continued before it is graded", "reopen.reopen", "if (regraded := regraded_from(folder)) is not None and not regraded.finished:", "if False:", f"{REGRADE}::test_a_regrade_that_is_ended_goes_on_where_it_was"),
    Broken("the look that runs ended at is taken again", "Regrading._finish", "because = judge(after)", "because = looks.ended.because", TOGETHER),
    Broken("a look that no longer ends the run was taken", "Regrading._finish", "looks = msgspec.structs.replace(looks, taken=(*looks.taken, after))", "pass", TOGETHER),
    Broken("a folder that grew is not graded into", "start_regrading", "if len(folder.frozen().parts) != len(setting.frozen.parts):", "if False:", TOGETHER),
    Broken("the rule of planned looks is that of later reports", "OpenFolders._judging", 'return {"promote_by": "evidence", **plans[0]}', "return {}", TOGETHER),
    Broken("a worse candidate needs no five repeats", "_over_at_look", 'if looks.stop == "baseline better":', "if False:", TOGETHER),
    Broken("who is worse at a look runs no more", "next_steps", "and not over:", "and True:", TOGETHER),
    Broken("what looks cannot do is said first", "setting.notes", "yield from _on_looks(setting.frozen)", "", TOGETHER),
    Broken("serious caveats of several candidates are on the first screen", "render.candidates._promotions", "*_serious(analyses),", "", TOGETHER),
    Broken("scores missing on one side withhold what goes by them", "_by_one_way", "if scores is not None and scores.one_sided is not None:", "if False:", TOGETHER),
]  # fmt: skip
