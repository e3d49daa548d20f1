"""Rules of Harbor's tasks: what is frozen and refused, whose failure it was, that nothing is left."""

from tests.broken.entry import Broken

RUN = "tests/run/test_harbor.py"
REWARDS = "tests/run/test_harbor_rewards.py"
OPTIONS = "tests/run/test_harbor_options.py"
LAUNCH = "tests/programs/test_launch.py"
MISTAKES = f"{RUN}::test_mistakes_are_told_by_key"
REASONS = f"{RUN}::test_a_trial_without_a_reward_says_why"
LIMITS = f"{RUN}::test_a_trial_at_its_limit_is_the_agents_failure_while_that_worked"
WHOLE = f"{RUN}::test_a_folder_of_tasks_is_run_in_two_arms"

HARBOR = [
    Broken("a task folder of Harbor is frozen", "freeze._digests", "if task.harbor is not None:", "if False:", f"{RUN}::test_a_task_that_was_changed_is_refused_by_its_key"),
    Broken("an added task of Harbor is no change", "task_keys", 'f"{own}.harbor"', '"harbor"', f"{RUN}::test_a_task_that_is_added_is_run"),
    Broken("a trial has a copy of its task", "_task_name", 'os.path.basename(checked.at(task.harbor)) if task.harbor is not None else ""', 'checked.at(task.harbor) if task.harbor is not None else ""', f"{RUN}::test_a_trial_has_its_own_copy_of_the_task_under_its_name"),
    Broken("runs of Harbor are not graded again", "start_regrading", "if agent is not None and agent.program == HARBOR:", "if False:", f"{RUN}::test_runs_of_harbor_are_not_graded_again"),
    Broken("a folder without a task is refused", "harbor_tasks._found", "if not names:", "if False:", MISTAKES),
    Broken("a folder that is not there is refused", "harbor_tasks._found", "if not os.path.isdir(path):", "if False:", MISTAKES),
    Broken("half a task is refused", "_tasks_in", "elif os.path.exists(os.path.join(at, _PROMPT)):", "elif False:", MISTAKES),
    Broken("a task of Harbor asks something", "harbor_tasks._text_of", "if not text.strip():", "if False:", MISTAKES),
    Broken("a prompt of Harbor is one that can be passed on", "harbor_tasks._text_of", 'if "\\0" in text:', "if False:", MISTAKES),
    Broken("a file that is not UTF-8 is told as such", "harbor_tasks._unreadable", "if isinstance(error, UnicodeDecodeError):", "if False:", MISTAKES),
    Broken("a short option may have its value in the same word", "misplaced", "or word.startswith(_OWN_SHORT)", "or word == _OWN_SHORT", MISTAKES),
    Broken("no link leads out of a task", "_refuse_links", "if os.path.islink(link) and os.path.commonpath((root, leads)) != root:", "if False:", MISTAKES),
    Broken("a task of Harbor has no prompt beside it", "expand", "if getattr(spelled.task, name):", "if False:", MISTAKES),
    Broken("tasks of Harbor only with Harbor", "misplaced", "if task.harbor is not None and program != HARBOR:", "if False:", MISTAKES),
    Broken("Harbor only with its tasks", "misplaced", "if task.harbor is None and program == HARBOR:", "if False:", MISTAKES),
    Broken("no workspace beside tasks of Harbor", "misplaced", "if suite.workspace is not None:", "if False:", MISTAKES),
    Broken("an arm cannot change what is Harbor's", "misplaced", "if getattr(arm, key):", "if False:", MISTAKES),
    Broken("a trial has its own name and folder", "misplaced", 'if word.partition("=")[0] in _OWN_OPTIONS or word.startswith(_OWN_SHORT):', "if False:", MISTAKES),
    Broken("a task has a name", "suite_file._tasks", "if not task.id and task.harbor is None:", "if False:", MISTAKES),
    Broken("a Harbor that did not begin is nobody's failure", "without_result", "if CONFIG not in folder:", "if False:", REASONS),
    Broken("a trial that began and left nothing has failed", "without_result", 'elif sidecar.ended_by in (None, "exit"):', "elif False:", REASONS),
    Broken("a limit is the agent's failure while it works", "trial_folder.stopped", 'if sidecar.ended_by in (None, "exit"):', "if True:", LIMITS),
    Broken("a limit before or after is nobody's failure", "trial_folder.stopped", "if verifying or not begun:", "if False:", LIMITS),
    Broken("a planned trial has the task of the schedule", "trial_folder.planned", "task_id=sidecar.task_id,", "", WHOLE),
    Broken("a task of Harbor is its own grader", "run.settle.settle", "or not _accepted(attempted, reader)", "", WHOLE),
    Broken("what is left in an engine is removed", "supervisor.main._clear_engines", 'if attempt.job["engines"]:', "if False:", f"{RUN}::test_what_is_left_in_an_engine_is_removed_by_name"),
    Broken("nothing is removed by a short name", "remove_named", "if len(name) < _SHORTEST:", "if False:", f"{RUN}::test_nothing_is_removed_by_a_name_that_others_might_have"),
    Broken("what cannot be removed is told", "remove_named", "wrong.append(f\"{engine} {' '.join(removed)}: {told.strip()[-200:]}\")", "pass", f"{RUN}::test_what_cannot_be_removed_is_told"),
    Broken("who cleans up may, when nobody waits", "Steps._clean_up", "if not isinstance(isolation, CleansUp):", "if True:", f"{RUN}::test_a_runner_that_wants_no_more_lets_it_clean_up"),
    Broken("it has no more than its grace", "Steps._clean_up", "and time.monotonic() < deadline", "", f"{RUN}::test_it_has_its_grace_and_no_more"),
    Broken("it is asked to end once", "Steps._clean_up", "if not self._asked:", "if True:", f"{RUN}::test_it_is_asked_once_even_if_the_runner_goes_while_it_cleans_up"),
    Broken("Harbor is ended by SIGINT", "HarborAgent.launch", "stop_signal=signal.SIGINT,", "", LAUNCH),
    Broken("Harbor has ten seconds", "HarborAgent.launch", "least_grace_seconds=_GRACE_SECONDS,", "", LAUNCH),
    Broken("a grace is not less than the agent needs", "JobMaker.make", "max(limits.grace_seconds, launch.least_grace_seconds)", "limits.grace_seconds", f"{RUN}::test_the_grace_of_a_trial_is_at_least_that_of_its_agent"),
    Broken("Harbor tells nobody of its runs", "HarborAgent.launch", "env=dict(self.quiet),", "", f"{RUN}::test_telemetry_is_off_and_secrets_are_in_the_environment"),
    Broken("Harbor tells nobody its version", "find_program", 'getattr(agent, "quiet", {})', "{}", f"{RUN}::test_telemetry_is_off_and_secrets_are_in_the_environment"),
    Broken("Harbor is not in a sandbox", "HarborAgent.nests", "return False", "return True", LAUNCH),
    Broken("Harbor is not in a container", "choose_isolation", "if asked in CONTAINERS and checked.of_harbor:", "if False:", f"{RUN}::test_the_dry_run_says_how_it_is_isolated_and_asks_harbor"),
    Broken("a limit shorter than the task's is told", "_short_limits", "if own is not None and own >= limit:", "if False:", f"{RUN}::test_the_dry_run_says_how_it_is_isolated_and_asks_harbor"),
    Broken("the dry run finds an option that Harbor does not know", "rehearse._refuse_unknown_options", "if done.returncode:", "if False:", OPTIONS),
    Broken("no trial is started to find it", "HarborAgent.checking", 'return (*argv, "--help")', "return tuple(argv)", OPTIONS),
    Broken("what stands in a box is said where nothing stands below", "trial_folder.last_words", "below if below.strip() else inside", "below", OPTIONS),
    Broken("a resume removes what a killed run has left", "_end_all", "clear_engines(setting.checked, setting.agent, setting.env, first, token)", "pass", f"{RUN}::test_a_resume_removes_what_a_killed_runner_has_left"),
    Broken("a killed supervisor leaves nothing in an engine", "Local._ended", 'remove_named(running.job.engines, running.job.marker, home | running.job.env["agent"])', "pass", f"{RUN}::test_a_supervisor_that_is_killed_leaves_nothing_in_an_engine"),
    Broken("a suite says which reward decides", "Session.reader", "settings=read_as(setting.frozen.suite),", "", f"{REWARDS}::test_a_suite_says_which_of_several_rewards_decides"),
    Broken("it says so whenever runs are read", "report._read_again", "settings=read_as(frozen.suite),", "", f"{REWARDS}::test_a_suite_says_which_of_several_rewards_decides"),
    Broken("a reward that nobody has chosen fails nobody", "Harbor.read", "if not settings.scheduled:", "if True:", REWARDS),
    Broken("nor does it fail an agent that ran out of time", "Harbor.read", 'if failure is None or failure.failure == "agent":', "if failure is None:", REWARDS),
    Broken("only Harbor has rewards", "suite_file._program", "if getattr(agent, key) is not UNSET:", "if False:", REWARDS),
    Broken("a threshold is a number", "suite_file._program", "elif not isfinite(agent.threshold or 0.0):", "elif False:", REWARDS),
    Broken("older schedules have the digests that they had", "settings.Program", "scorer: Text | UnsetType | None = UNSET", "scorer: Text | UnsetType | None = None", REWARDS),
    Broken("a reward that is no score is said", "harbor.record._caveats", "if as_score(reward) is None:", "if False:", REWARDS),
]  # fmt: skip
