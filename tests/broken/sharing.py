"""Rules of shards, and of putting them together."""

from tests.broken.entry import Broken

SHARDS = "tests/run/test_shards.py"
MERGE = "tests/run/test_merge.py"

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
    Broken("a shard has come to its end", "ShardFolder.check", 'if left and self.receipt.get("end") not in _ENDED and not partial:', "if False:", MERGE),
    Broken("a shard has its own trials", "ShardFolder.check", "for name in sorted(self.runs.keys() - own):", "for name in ():", MERGE),
    Broken("a run is what the receipt says", "ShardFolder.check", "or file_digest(path) != digests.get(name)", "", MERGE),
    Broken("a run is as long as it was", "ShardFolder.check", "self.folder.check_whole(run)", "pass", MERGE),
    Broken("a shard is not at work", "ShardFolder.__init__", "if self.folder.held_by_another():", "if False:", MERGE),
    Broken("trials of missing shards have a line", "merged_lines", "for number in missing:", "for number in ():", MERGE),
    Broken("missing shards are a caveat", "caveats._on_grading", "if study.missing_shards:", "if False:", MERGE),
    Broken("the journal is by time", "_merge_files", 'events.sort(key=lambda event: event.get("at", 0.0))', "pass", MERGE),
    Broken("a spent budget is an end", "merge._receipt", 'end = "budget" if "budget" in ends else "done"', 'end = "done"', MERGE),
]  # fmt: skip
