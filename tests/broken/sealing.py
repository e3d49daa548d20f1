"""Rules of what holds an agent back."""

from tests.broken.entry import Broken

SEALED = "tests/attacks/test_run_sealed.py"
ISOLATION = "tests/run/test_isolation.py"
SHOWN = "tests/run/test_shown.py"
# Of the suite a container sees the one file that is named; or a folder so far above it.
ONE_FILE = 'Layer.SHOWN: ("-v", f"{path}:{path}:ro"),'
ABOVE = 'Layer.SHOWN: ("-v", "{0}:{0}".format(os.path.normpath(path + "%s"))),'

SEALING = (
    Broken("a sandbox has processes of its own", "Sealer._sandbox", '"--unshare-pid",', "", f"{SEALED}::test_processes_of_others[bwrap]"),
    Broken("settings of the kernel are not the agent's", "Sealer._sandbox", "*(kernel if root else ())", "", f"{SEALED}::test_settings_of_the_kernel[bwrap]"),
    Broken("no network means none", "Sealer._sandbox", '*(("--unshare-net",) if offline else ()),', "", f"{SEALED}::test_the_network[bwrap-none]"),
    Broken("an agent does not see the suite", "Sealer.for_agent", '"agent": [*self._agent_reads(texts), *builds]', '"agent": [self.checked.folder, *builds]', f"{SEALED}::test_the_suite_and_what_grades_it[bwrap]"),
    Broken("what is kept back is hidden", "Sealer._sandbox", "layers([*shown, *self._mounts, *reads], hidden)", "layers([*shown, *self._mounts, *reads, *hidden], [])", f"{SEALED}::test_files_of_the_user[bwrap]"),
    Broken("a sandbox can be written to in the agent's folders alone", "Bubblewrapped.__init__", '"--remount-ro", "/",', '"--bind", "/", "/",', f"{SEALED}::test_files_elsewhere[bwrap]"),
    Broken("a container has processes of its own", "Sealer._container", '"run", "--init",', '"run", "--pid", "host",', f"{SEALED}::test_processes_of_others[podman]"),
    Broken("a container does not see the suite", "Sealer._container", ONE_FILE, ABOVE % "/..", f"{SEALED}::test_the_suite_and_what_grades_it[podman]"),
    Broken("a container does not see HOME", "Sealer._container", ONE_FILE, ABOVE % "/../..", f"{SEALED}::test_files_of_the_user[podman]"),
    Broken("a container writes nowhere else", "Sealer._container", ONE_FILE, ABOVE % "/../../..", f"{SEALED}::test_files_elsewhere[podman]"),
    Broken("no network means none in a container", "Sealer._network", 'if kind == "agent": return network', 'if kind == "agent": return "host"', f"{SEALED}::test_the_network[podman-none]"),
    Broken("a container has a limit on processes", "Sealer._container", '["--pids-limit", str(limits.processes or MOST_PROCESSES)]', "[]", f"{SEALED}::test_processes_without_end[podman]"),
    Broken("processes have a limit", "supervisor.main.prepare", "attempt.process_limit.allow(most or MOST_PROCESSES)", "attempt.process_limit.allow(MOST_PROCESSES)", f"{SEALED}::test_processes_without_end[bwrap]"),
    Broken("acceptance writes to none of the agent's folders but one", "RunningAttempt.isolated", "written = [self.work.path, self.clean_home.path]", "written = [self.work.path, *agents, self.clean_home.path]", f"{ISOLATION}::test_acceptance_in_a_sandbox_reads_the_agents_home_and_does_not_write_to_it"),
    Broken("a sandbox that did not start is not an agent that failed", "Bubblewrapped.ended", "if code is not None and b'\"exit-code\"' not in told:", "if False:", f"{ISOLATION}::test_a_sandbox_that_does_not_start_is_nobodys_failure"),
    Broken("an agent in a sandbox is asked to end before it is killed", "Bubblewrapped.terminate", "if each != pid:", "if True:", f"{ISOLATION}::test_an_agent_in_a_sandbox_has_its_grace"),
    Broken("a sandbox outlives a group that is killed", "Sealer._sandbox", '"--new-session"', "", f"{ISOLATION}::test_an_agent_in_a_sandbox_cannot_pretend_that_it_did_not_start"),
    Broken("nobody is root in a namespace of its own", "call_filter", '(_HAS, "no permission", "", _NEW_USER)', '(_HAS, "", "", _NEW_USER)', f"{ISOLATION}::test_a_filter_refuses_namespaces_of_users_keys_and_other_kinds_of_calls"),
    Broken("no key goes from trial to trial", "call_filter", '*((_EQUAL, "no permission", "", number) for number in keyring),', "", f"{ISOLATION}::test_a_filter_refuses_namespaces_of_users_keys_and_other_kinds_of_calls"),
    Broken("what is mounted below a link is below what it leads to", "Sealer._sandbox", '"--symlink", "../tmp", "/var/tmp"', '"--symlink", "/tmp", "/var/tmp"', f"{ISOLATION}::test_the_cache_may_be_in_a_folder_for_temporary_files[/var/tmp]"),
    Broken("whoever is started is under the limit", "ProcessLimit.allow", "with self._moving:", "if True:", "tests/run/test_process_limit.py::test_the_limit_holds"),
    Broken("a limit goes with its supervisor", "Local._ended", "clear_process_limits()", "pass", "tests/run/test_process_limit.py::test_the_limit_of_an_attempt_is_taken_away_when_it_has_ended"),
    Broken("links lead to nothing that is hidden", "Sealer._hidden", "*map(os.path.realpath, every)", "", SHOWN),
    Broken("what workspaces are made of is hidden", "Sealer._hidden", "checked.shown, *paths]", "checked.shown]", SHOWN),
    Broken("a home inside a suite stays private", "Sealer._suite", "if inside else [suite]", "if False else [suite]", SHOWN),
    Broken("variables of every step show the same to every step", "Sealer._suite", "[*commands, *self._variables]", "commands", f"{SHOWN}::test_what_variables_of_every_step_name_is_shown_to_every_step"),
    Broken("beside a program of the suite nothing is shown", "_Trees._has_prefix", "and not self._is_too_much(os.path.dirname(folder))", "", f"{SHOWN}::test_beside_a_program_of_the_suite_nothing_is_shown"),
    Broken("no folder above the suite is shown", "Sealer._beside", "or not holds(path, self._hidden)", "or True", f"{SHOWN}::test_what_holds_what_is_kept_back_is_not_shown_by_any_name"),
    Broken("no link to what is kept back is shown", "shown.holds", "{path, os.path.realpath(path)}", "{path}", f"{SHOWN}::test_what_holds_what_is_kept_back_is_not_shown_by_any_name"),
    Broken("a suite in a folder of the system is hidden", "Sealer._machine", "if path not in self._hidden", "", f"{SHOWN}::test_a_suite_that_is_a_folder_of_the_system_is_hidden"),
    Broken("the file that tasks are from is hidden", "Sealer._hidden", "if checked.suite.tasks_from is not None:", "if False:", f"{SHOWN}::test_the_file_that_tasks_are_from_is_hidden"),
    Broken("a name may have spaces", "shown._whole", "sorted(ends, reverse=True)", "sorted(ends)", f"{SHOWN}::test_whole_paths_are_found_in_texts"),
    Broken("what is hidden is hidden by every name", "_as_seen", "lies(real, target)", "False", f"{SHOWN}::test_what_is_hidden_is_hidden_by_every_name"),
    Broken("each step reads what it names itself", "Sealer._sandbox", "self._sandboxes.get((kind, reads))", "next(iter(self._sandboxes.values()), None)", f"{SHOWN}::test_each_step_reads_what_it_names_itself"),
    Broken("what a user keeps beside programs is not shown", "_Trees._add_prefix", "_BESIDE_IF.get(name, name)", "name", SHOWN),
    Broken("what programs are made of is shown", "_Trees._add_prefix", "for name in (*_BESIDE, *_BESIDE_IF):", "for name in _BESIDE:", SHOWN),
    Broken("what is private in folders of settings is hidden", "shown.secrets", "folders.append(entry.path)", "pass", SHOWN),
    Broken("what was not looked at is hidden", "shown.secrets", "[*paths, *folders]", "paths", SHOWN),
    Broken("a grader that agents can read is told", "Sealer.readable_graders", 'if self.isolation == "copy":', "if True:", f"{SHOWN}::test_a_grader_that_agents_can_read_is_told"),
    Broken("only what an agent sees is told", "shown.sees", "bool(around)", "True", f"{SHOWN}::test_a_grader_that_agents_can_read_is_told"),
    Broken("what is hidden is not told", "Sealer.readable_graders", "layers([*seen, *self._mounts], self._hidden)", "layers([*seen, *self._mounts], [])", f"{SHOWN}::test_a_grader_that_agents_can_read_is_told"),
    Broken("a grader that mounts show is told", "Sealer.readable_graders", "[*seen, *self._mounts]", "seen", f"{SHOWN}::test_a_grader_that_mounts_show_is_told"),
    Broken("programs are no graders", "may_grade", "(distributed or program or os.path.isdir(os.path.join(path, \"bin\")))", "False", f"{SHOWN}::test_a_grader_that_agents_can_read_is_told"),
    Broken("a prompt shows nothing", "job_maker.values_of", "checked.prompts[task.id] if asked else \"\"", "checked.prompts[task.id]", f"{SHOWN}::test_a_task_that_mentions_a_file_of_the_suite_does_not_show_it"),
    Broken("an acceptance command shows nothing", "job_maker.values_of", "task.whole_acceptance if asked else \"\"", "task.whole_acceptance", f"{SHOWN}::test_a_task_that_mentions_a_file_of_the_suite_does_not_show_it"),
    Broken("programs need not be listed", "_Trees.add_folder", "except OSError:", "except UnicodeError:", SHOWN),
    Broken("what a command needs is not known", "choose_isolation", 'if why is None and agent.name == "command":', "if False:", f"{ISOLATION}::test_what_a_command_needs_cannot_be_tried"),
    Broken("acceptance that prints something else inside stays outside", "Preparation._differs_inside", "if logs[0] != logs[1]:", "if False:", f"{ISOLATION}::test_acceptance_that_behaves_otherwise_inside_is_left_in_the_open"),
    Broken("acceptance that ends otherwise inside stays outside", "Preparation._differs_inside", "if inside != outside:", "if False:", f"{ISOLATION}::test_acceptance_that_behaves_otherwise_inside_is_left_in_the_open"),
    Broken("an agent that does not answer inside stays outside", "settle_program", "if done.returncode == 0 and", "if True or", f"{ISOLATION}::test_an_agent_that_does_not_start_inside_runs_in_the_open"),
    Broken("a sandbox is not put into another", "_bubblewrap", "if not agent.nests:", "if False:", f"{ISOLATION}::test_a_sandbox_inside_a_sandbox_is_refused_or_left_alone"),
    Broken("passwords of the machine are hidden", "shown.secrets", "if _is_private(entry):", "if False:", f"{SEALED}::test_passwords_of_the_machine[bwrap]"),
    Broken("files that may hold keys are not shown", "keys_in", "if may_hold_keys(name)", "if False", f"{SHOWN}::test_programs_below_home_are_shown_with_what_they_are_made_of"),
    Broken("a folder that holds what is kept back is not shown", "_Trees._is_too_much", 'os.path.basename(prefix) == ".local" or', "", f"{SHOWN}::test_programs_below_home_are_shown_with_what_they_are_made_of"),
    Broken("what grades from the suite is frozen", "freeze._digests", "if files := checked.graders(task):", "if files := []:", f"{ISOLATION}::test_what_grades_from_the_suite_is_frozen"),
    Broken("what grades from the suite is in the digest", "grader_of", "if files:", "if False:", f"{ISOLATION}::test_what_grades_from_the_suite_is_frozen"),
)  # fmt: skip
