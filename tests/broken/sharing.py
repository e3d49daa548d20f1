"""Rules of shards, and of putting them together."""

from tests.broken.entry import Broken

SHARDS = "tests/run/test_shards.py"
MERGE = "tests/run/test_merge.py"
HOSTILE = "tests/run/test_merge_hostile.py"

SHARING = [
    Broken("shards are even", "shard.dealt", "room = size + (grown < larger)", "room = size + 1", SHARDS),
    Broken("every shard has its part of a task", "shard.dealt", "tasks[at, task] += 1", "pass", SHARDS),
    Broken("each arm is first in a shard", "shard.dealt", "first[at, arm] += 1", "pass", f"{SHARDS}::test_each_arm_is_first_about_equally_often_in_every_shard"),
    Broken("what a run grows by is dealt on its own", "shard.sharded", "for part in frozen.parts:", "for part in frozen.parts[:1]:", SHARDS),
    Broken("a shard has its share of the budget", "setting._share", "terms.budget_usd * own / every", "terms.budget_usd", SHARDS),
    Broken("a share pays for a trial", "setting._share", "share.budget_usd < terms.trial_usd", "False", SHARDS),
    Broken("a ref may not move", "refuse_moving", "if not _FIXED.fullmatch(ref):", "if False:", SHARDS),
    Broken("a shard shows no verdict", "run_to_end.finish", "if session.machine.shard is not None and end not in _EARLY:", "if False:", SHARDS),
    Broken("nobody scores a shard", "open_folders", "if opened.study.shard and not shards:", "if False:", SHARDS),
    Broken("a resume keeps its share", "reopen.reopen", "shard=machine.shard,", "shard=None,", SHARDS),
    Broken("a shard is given once", "open_shards", "if earlier is not shard:", "if False:", MERGE),
    Broken("a missing shard is named", "open_shards", "if missing and not partial:", "if False:", MERGE),
    Broken("shards are of one schedule", "merge._refuse_other", "for key, ours, theirs in first.frozen.differences(other.frozen):", "for key, ours, theirs in ():", MERGE),
    Broken("shards are of one number", "merge._refuse_other", "if other.shard.of != first.shard.of:", "if False:", MERGE),
    Broken("shards are isolated alike", "merge._refuse_other", 'for key in ("isolation", "trial_usd"):', 'for key in ("trial_usd",):', MERGE),
    Broken("shards are graded alike", "merge._refuse_other", "if unlike[0] != unlike[1]:", "if False:", MERGE),
    Broken("a shard has come to its end", "ShardFolder.check", 'if left and self.receipt.end != "budget" and not partial:', "if False:", MERGE),
    Broken("a shard has its own trials", "ShardFolder.check", "if made.trial.id not in own:", "if False:", MERGE),
    Broken("a run is what the receipt says", "ShardFolder.check", "if file_digest(path) != self.receipt.run_json_sha256.get(name):", "if False:", MERGE),
    Broken("a run is as long as it was", "ShardFolder.check", "self.folder.check_whole(run)", "pass", MERGE),
    Broken("a shard is not at work", "ShardFolder.__init__", "if self.folder.held_by_another():", "if False:", MERGE),
    Broken("trials of missing shards have a line", "merged_lines", "for number in missing:", "for number in ():", MERGE),
    Broken("missing shards are a caveat", "caveats._on_grading", "if study.missing_shards:", "if False:", MERGE),
    Broken("the journal is by time", "_merge_files", "events.sort(key=_time)", "pass", MERGE),
    Broken("a spent budget is an end", "merge._receipt", 'end = "budget" if "budget" in ends else "done"', 'end = "done"', MERGE),
    Broken("nothing is merged into a shard", "merge.refuse_target", "if lies_in(out, shard.path):", "if False:", f"{HOSTILE}::test_nothing_is_written_into_a_shard"),
    Broken("a half merged folder is no run", "RunFolder.refuse_half_merged", "if os.path.lexists(self.at(MERGING)):", "if False:", f"{HOSTILE}::test_a_killed_merge_looks_like_nothing_else"),
    Broken("a merge that fails leaves nothing", "merge.merge", "_clear(folder, made=not there)", "pass", f"{HOSTILE}::test_a_merge_that_fails_leaves_nothing"),
    Broken("a receipt is of its schedule", "ShardFolder._receipt", "if receipt.schedule_sha256 != file_digest(self.folder.at(SCHEDULE)):", "if False:", f"{HOSTILE}::test_a_shard_that_grew_and_was_killed_is_not_done"),
    Broken("a line is of a trial of the shard", "refuse_other_lines", "if known.trial not in own:", "if False:", f"{HOSTILE}::test_lines_that_are_not_of_its_runs"),
    Broken("a line is there once", "refuse_other_lines", "elif known.run_id in told:", "elif False:", f"{HOSTILE}::test_lines_that_are_not_of_its_runs"),
    Broken("a line is of a run that is there", "refuse_other_lines", "known.run_id is not None or known.failure not in _WITHOUT_RUN", "False", f"{HOSTILE}::test_lines_that_are_not_of_its_runs"),
    Broken("there is no shard beyond the last", "Shard.__post_init__", "if self.number > self.of:", "if False:", f"{HOSTILE}::test_a_share_that_is_none"),
    Broken("a shard is missing until its trials are run", "MergedShards.still_missing", "if not settled.issuperset(sharded(frozen, Shard(number=number, of=self.of)).trials)", "if True", f"{HOSTILE}::test_a_missing_shard_is_missing_until_its_trials_are_run"),
    Broken("what a machine made anew is said", "merge.differing", "if keys:", "if False:", f"{MERGE}::test_what_was_made_anew_elsewhere_is_said"),
    Broken("another program of the agent is said", "merge.differing", "if first.receipt.agent.sha256 != shard.receipt.agent.sha256:", "if False:", f"{MERGE}::test_what_was_made_anew_elsewhere_is_said"),
    Broken("other budgets are said", "merge.differing", "if budgets[0] != budgets[1]:", "if False:", f"{HOSTILE}::test_another_budget_is_said"),
    Broken("a hole stays a hole", "_copy_content", "end = os.lseek(source, at, os.SEEK_HOLE)", "end = status.st_size", f"{HOSTILE}::test_a_file_of_holes_takes_no_room"),
    Broken("a schedule is what was frozen", "ShardFolder.__init__", "refuse_forged(self.frozen, self.folder.at(SCHEDULE))", "pass", f"{HOSTILE}::test_a_schedule_that_was_changed"),
    Broken("an older layout has no shards", "ShardFolder.__init__", "if self.frozen.schema != SCHEMA:", "if False:", f"{HOSTILE}::test_a_layout_from_before_there_were_shards"),
    Broken("a trial has one limit", "merge._refuse_other", 'for key in ("isolation", "trial_usd"):', 'for key in ("isolation",):', f"{HOSTILE}::test_another_limit_for_a_trial"),
    Broken("shards that stopped are no end", "merge._receipt", "if merged.missing or ends - set(_ENDED):", "if merged.missing:", f"{MERGE}::test_a_shard_that_was_stopped_and_went_on"),
    Broken("a copy comes back where it was", "files.copy._left", "if _identity(parent) != known:", "if False:", "tests/files/test_copy.py"),
    Broken("a copy keeps modes", "_copy_content", "os.fchmod(target, status.st_mode & 0o777)", "pass", "tests/files/test_copy.py"),
]  # fmt: skip
