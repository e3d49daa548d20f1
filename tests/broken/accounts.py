"""Rules of accounting: every trial is a line, and what can be read of it is read."""

from tests.broken.entry import Broken

NOISE = "tests/test_collect_noise.py"
USAGE = "tests/test_collect_any_command.py"
REFUSED = "tests/test_collect_refused.py"

ACCOUNTS = [
    Broken("what is no object is no event", "collect/folder.py", '        if not line.lstrip().startswith(b"{"):\n            return True\n', "", NOISE),
    Broken("half an event may have mattered", "collect/folder.py", "return self.lenient or not _EVENT.match(line)", "return True", NOISE),
    Broken("half an event of a run that was stopped is none", "collect/folder.py", "return self.lenient or not _EVENT.match(line)", "return not _EVENT.match(line)", NOISE),
    Broken("objects that people print are noise", "collect/folder.py", "return self.lenient or not _EVENT.match(line)", "return self.lenient", NOISE),
    Broken("objects of another shape are none", "collect/folder.py", "            return self.lenient or not _EVENT.match(line)\n        return False", "            return self.lenient or not _EVENT.match(line)\n        return True", NOISE),
    Broken("noise is counted", "collect/folder.py", "                self.skipped += 1\n", "                pass\n", NOISE),
    Broken("noise before a document is counted", "collect/folder.py", "        self.skipped += sum(", "        sum(", NOISE),
    Broken("noise is tagged", "collect/run_folder.py", '["noise_in_output"] if folder.skipped else []', "[]", NOISE),
    Broken("whoever is stopped may be writing", "collect/sidecar.py", '    folder.lenient |= sidecar.ended_by not in (None, "exit")\n', "", NOISE),
    Broken("runs of a schedule are paid for", "collect/gather.py", "        folder.lenient = self._settings.scheduled\n", "", NOISE),
    Broken("a crash before the first event is the agent's", "collect/run_folder.py", 'failure=agent(f"no event was printed{ended}"),', 'failure=infra(f"no event was printed{ended}"),', NOISE),
    Broken("text instead of events is another format", "collect/run_folder.py", "if sidecar.ended_by is None or well:", "if sidecar.ended_by is None:", NOISE),
    Broken("a refusal before the first event is infra", "collect/opencode.py", "waiting = refused_since(folder, None)", "waiting = None", NOISE),
    Broken("codex: what was written down counts", "collect/codex.py", "if events == [] and rollout is not None:", "if False:", NOISE),
    Broken("codex: an error in a rollout is one", "collect/codex.py", "error=None if error is None else as_text(error),", "error=None,", NOISE),
    Broken("opencode: what was written down counts", "collect/opencode.py", "if events == [] and export is not None and _exported(export).shows_work:", "if False:", NOISE),
    Broken("counts have the names of a record", "collect/command.py", "known.total_cost_usd if known.total_cost_usd is not None else known.cost_usd", "known.cost_usd", USAGE),
    Broken("a failure has the names of a record", "collect/command.py", 'reason = self.failure_reason or ""', 'reason = ""', USAGE),
    Broken("two costs that differ are none", "collect/command.py", "    if len(costs) > 1:\n", "    if False:\n", USAGE),
    Broken("whole numbers may be floats", "collect/command.py", "whole = isinstance(value, float) and value.is_integer()", "whole = False", USAGE),
    Broken("unknown keys are named", "collect/command.py", "{_UNKNOWN: unknown, _WRONG: sorted(wrong)}", "{_WRONG: sorted(wrong)}", USAGE),
    Broken("wrong values are named", "collect/command.py", "{_UNKNOWN: unknown, _WRONG: sorted(wrong)}", "{_UNKNOWN: unknown}", USAGE),
    Broken("counts of which none can be read are said", "collect/command.py", "    if found and not known:\n", "    if False:\n", USAGE),
    Broken("what a caveat is about is named once", "collect/gather.py", "        if code in work.about:\n", "        if False:\n", USAGE),
    Broken("claude tells the status of a refusal", "collect/claude_code.py", 'f"API error {status}", status)', 'f"API error {status}")', REFUSED),
    Broken("claude tells it while it asks again", "collect/claude_code.py", "status=http_status(line.error_status)", "status=None", REFUSED),
    Broken("codex tells the status of a refusal", "collect/codex.py", 'return of_provider(message, "", _status(message))', "return of_provider(message)", REFUSED),
    Broken("opencode tells the status of a refusal", "collect/opencode.py", "error.name, _status(error.data)), False", "error.name), False", REFUSED),
    Broken("gemini tells the status of a refusal", "collect/failure.py", "http_status(status) or http_status(inner.code)", "http_status(status)", REFUSED),
    Broken("Google says 400 to a wrong key", "collect/gemini_cli.py", "401 if wrong_key else error.code", "error.code", REFUSED),
    Broken("a wait keeps the status of its refusal", "collect/failure.py", "refused=True, status=waiting.status)", "refused=True)", REFUSED),
    Broken("tasks are compared by their ids", "run/schedule.py", "        return {task.id: task for task in value}\n", "        return None\n", "tests/test_run_schedule.py"),
    Broken("a task that is gone is named", "run/session.py", "    refuse_removed(frozen, read_suite(suite).tasks)\n", "", "tests/test_run_resume.py::test_what_has_changed_since_the_schedule_was_frozen_is_named"),
    Broken("long values are shown where they differ", "run/changes.py", "next(apart, min(len(then), len(now))) - _BEFORE)", "0)", "tests/test_run_resume.py::test_what_has_changed_since_the_schedule_was_frozen_is_named"),
]  # fmt: skip
