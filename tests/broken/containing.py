"""Rules of containers: what is in them, who may do what there, and that nobody is left in one."""

from tests.broken.entry import Broken

RUNS = "tests/containers/test_runs.py"
IMAGES = "tests/containers/test_images.py"
REFUSED = "tests/containers/test_refused.py"
SECRET = "tests/containers/test_secrets.py"
KILLS = "tests/attacks/test_run_contained.py"
LEFT = "tests/containers/test_abandoned.py"
HUNG = "tests/run/test_engines_that_hang.py"
ENDS = "tests/run/test_container_ends.py"
STARTS = "tests/containers/test_starts.py"

CONTAINING = [
    Broken("a resume clears containers by their label", "_end_all", "clear_containers(setting.isolation, token)", "pass", f"{KILLS}::test_after_everybody_was_killed_at_once_a_resume_leaves_nobody"),
    Broken("a new start clears those of set-up", "session.start", "_end_all(setting, stale)", "pass", f"{KILLS}::test_whoever_is_left_in_set_up_is_gone_when_the_run_is_started_again"),
    Broken("a container is removed after its step", "Contained.ended", 'self._call(remove := [self._engine, "rm", "-f", "-v", self._name])', "0, 0", f"{RUNS}::test_a_whole_run_in_containers"),
    Broken("an exit code may be that of the engine", "Contained.ended", "if code:", "if False:", f"{KILLS}::test_a_client_that_is_killed_is_not_the_failure_of_its_agent"),
    Broken("any exit code may be that of the client", "Contained.ended", "if code:", "if code is not None and code >= 125:", ENDS),
    Broken("an engine that is gone has not refused a container", "Contained._state", '(_UNKNOWN if silent else "")', '""', ENDS),
    Broken("an image starts nothing by itself", "Contained.__init__", "*AS_SHELL, image", 'image, "/bin/sh"', f"{STARTS}::test_the_program_that_an_image_starts_by_itself_is_not_started"),
    Broken("nor does it where somebody looks into it", "look_into", "*AS_SHELL, image", 'image, "/bin/sh"', f"{STARTS}::test_the_program_that_an_image_starts_by_itself_is_not_started"),
    Broken("a killed client tells another exit code", "Contained.ended", "or own != code", "", f"{KILLS}::test_a_client_that_is_killed_after_its_agent_has_ended_is_not_its_failure_either"),
    Broken("a container that has ended tells the truth", "Contained.ended", 'if state not in ("exited", "stopped", "dead") or own != code:', "if code and code >= 125:", f"{KILLS}::test_an_agent_that_ends_like_an_engine_has_failed"),
    Broken("a killed supervisor leaves no container", "Local._ended", "_clear_containers(running.job)", "pass", f"{KILLS}::test_a_supervisor_that_is_killed_leaves_nobody_and_blames_nobody"),
    Broken("nobody in a container kills its supervisor", "Local._ended", "died=died and (unanswered or not running.job.seal.words)", "died=died", f"{KILLS}::test_a_supervisor_that_is_killed_leaves_nobody_and_blames_nobody"),
    Broken("SIGTERM reaches the agent in its container", "Contained.terminate", "send(pid, signal.SIGTERM)", "pass", f"{KILLS}::test_an_agent_that_obeys_has_its_grace"),
    Broken("secrets are not told to the engine", "Contained.command", "[*self._words, *argv]", '[*self._words[:2], *(word for pair in env.items() for word in ("-e", "=".join(pair))), *self._words[2:], *argv]', f"{SECRET}::test_a_secret_is_in_the_environment_of_the_agent_and_nowhere_in_the_engine"),
    Broken("acceptance has no network", "Sealer._network", 'if kind == "acceptance" and not self.checked.workspace.acceptance_network:', "if False:", f"{RUNS}::test_the_agent_has_the_network_that_it_was_given_and_acceptance_one_if_it_was_asked_for"),
    Broken("acceptance has a network if asked for", "Sealer._network", "and not self.checked.workspace.acceptance_network", "", f"{RUNS}::test_the_agent_has_the_network_that_it_was_given_and_acceptance_one_if_it_was_asked_for"),
    Broken("set-up has a network where the agent has none", "Sealer._network", 'None if network == "none" else network', "network", f"{RUNS}::test_the_agent_has_the_network_that_it_was_given_and_acceptance_one_if_it_was_asked_for"),
    Broken("acceptance reads the suite in a container", "Sealer.for_agent", '"acceptance": self._acceptance_reads(task)', '"acceptance": []', f"{RUNS}::test_acceptance_reads_files_of_the_suite_that_no_agent_sees"),
    Broken("what is kept back is hidden in a container", "Sealer._container", "layers([*self._mounts, *reads], self._hidden)", "layers([*self._mounts, *reads], [])", f"{STARTS}::test_what_is_kept_back_is_hidden_in_what_is_shown[podman]"),
    Broken("no volume outlives its container", "Contained.ended", '"rm", "-f", "-v", self._name', '"rm", "-f", self._name', f"{RUNS}::test_a_whole_run_in_containers"),
    Broken("nor one that nobody was left to remove", "Engine.clear", '"rm", "-f", "-v", *ids', '"rm", "-f", *ids', "tests/attacks/test_run_contained.py::test_after_everybody_was_killed_at_once_a_resume_leaves_nobody[podman]"),
    Broken("nobody outside writes to where an agent works", "Contained.__init__", "self.at = own.descriptor", "pass", f"{RUNS}::test_nobody_outside_writes_to_where_an_agent_works"),
    Broken("a shell that is missing is not another program", "look_into", "any(words in reason for words in _NO_SHELL)", '"exec" in reason', f"{REFUSED}::test_an_engine_that_lacks_a_program_of_its_own"),
    Broken("no mount shows the machine", "_check_agent_mounts", 'if real == "/" or lies(real, "/proc"):', "if False:", f"{REFUSED}::test_a_mount_that_shows_the_machine"),
    Broken("a container that is only stopped is removed", "Contained.ended", "if gone:", "if False:", f"{STARTS}::test_a_container_that_its_engine_only_stops_at_first_is_removed"),
    Broken("the cache of other runs is kept back", "Session._sealer", "self.place.root, self.place.path", "self.place.path", f"{STARTS}::test_what_is_kept_back_is_hidden_in_what_is_shown[podman]"),
    Broken("the runs that are graded again are kept back", "Regrading.run_folders", "(*super().run_folders, os.path.realpath(self._source.folder.path))", "super().run_folders", f"{STARTS}::test_what_is_kept_back_is_hidden_in_what_is_shown[podman]"),
    Broken("what a script is started with is looked for", "isolation._in_images", "if inner.lacks and _is_missing(checked, inner.lacks):", "if False:", f"{REFUSED}::test_what_a_script_is_started_with_is_looked_for"),
    Broken("a program is looked for where the suite says", "_in_images", "path=_path_of(checked)", "path=\"\"", f"{REFUSED}::test_a_program_may_be_where_the_suite_says"),
    Broken("a program of a workspace that is not there is not the agent's failure", "supervisor.main._is_here", 'return program.startswith(tuple(f"{at}/" for at in ours if at)) and not os.path.islink(program)', "return False", f"{RUNS}::test_a_program_that_setup_did_not_make_stops_the_run"),
    Broken("a suite may say where programs are", "isolation._is_missing", " or not elsewhere", " or True", f"{REFUSED}::test_what_a_script_is_started_with_may_be_where_the_suite_says"),
    Broken("a limit that is ignored is refused", "isolation._in_images", "if wanted and not inner.limited:", "if False:", f"{REFUSED}::test_a_limit_that_the_engine_ignores"),
    Broken("an engine may take us for somebody else", "_refuse_user", "if owner is None and user == str(ours):", "if False:", f"{REFUSED}::test_an_engine_in_which_we_are_somebody_else"),
    Broken("nothing is copied to where it is hidden", "Sealer._container", 'Layer.EMPTY: ("-v", path),', 'Layer.EMPTY: ("--tmpfs", path),', f"{STARTS}::test_what_is_kept_back_is_hidden_in_what_is_shown[podman]"),
    Broken("nobody writes to what is mounted", "Sealer._container", 'f"{path}:{path}:ro"', 'f"{path}:{path}"', f"{RUNS}::test_every_step_may_read_what_is_mounted_and_nobody_may_write_to_it"),
    Broken("nobody writes to the image", "Sealer._container", '"--read-only", "--tmpfs"', '"--tmpfs"', f"{RUNS}::test_an_agent_sees_nothing_of_the_machine_and_cannot_change_its_image"),
    Broken("a limit on memory", "Sealer._container", "if limits.memory_mb is not None:", "if False:", f"{RUNS}::test_a_step_has_no_more_memory_and_processes_than_the_suite_says"),
    Broken("a limit on processes", "Sealer._container", "limits.processes or MOST_PROCESSES", "MOST_PROCESSES", f"{RUNS}::test_a_step_has_no_more_memory_and_processes_than_the_suite_says"),
    Broken("a limit on processes that nobody asked for", "Sealer._container", 'if limits.processes or not self._ignores_limits:', 'if limits.processes:', f"{STARTS}::test_processes_have_a_limit_whether_or_not_the_suite_says_one"),
    Broken("the limit is not for the client", "supervisor.main.prepare", 'most = 0 if job["seal"]["image"] else job["processes"]', 'most = job["processes"]', f"{RUNS}::test_a_step_has_no_more_memory_and_processes_than_the_suite_says"),
    Broken("set-up runs in the image", "Sealer.for_setup", "if not self.contained:", "if True:", f"{RUNS}::test_setup_and_builds_run_in_the_image"),
    Broken("what was built is on the PATH of an image", "Contained.command", "if self._path:", "if False:", f"{RUNS}::test_setup_and_builds_run_in_the_image"),
    Broken("a task has its own image", "Sealer.image", "own or self.images.get(", "self.images.get(", f"{RUNS}::test_a_task_may_have_an_image_of_its_own"),
    Broken("set-up is shared by tasks of one image", "_setup_of", 'task.image or ""', '""', f"{RUNS}::test_a_task_may_have_an_image_of_its_own"),
    Broken("a suite with an image takes a container", "choose_isolation", "if asked is None and imaged:", "if False:", f"{RUNS}::test_a_suite_with_an_image_is_run_in_containers_unasked"),
    Broken("a run keeps the image of then", "isolation._containers", "if key in then:", "if False:", f"{IMAGES}::test_a_run_that_is_resumed_has_the_image_of_then_whatever_its_name_is_now"),
    Broken("a Dockerfile is frozen", "frozen_images", "if checked.workspace.dockerfile is not None:", "if False:", f"{IMAGES}::test_a_dockerfile_that_was_changed_is_refused_by_its_key"),
    Broken("one agent in all images", "_in_images", "if len(versions) > 1:", "if False:", f"{IMAGES}::test_every_image_has_the_same_agent"),
    Broken("a command is not started to look for it", "_in_images", 'has_version=agent.name != "command"', "has_version=True", f"{REFUSED}::test_a_command_is_looked_for_and_not_started"),
    Broken("an engine has to answer", "find_engine", "if done.returncode:", "if False:", f"{REFUSED}::test_an_engine_that_does_not_answer"),
    Broken("a program has to be in the image", "look_into", "if sought.name and not parts[3]:", "if False:", f"{REFUSED}::test_an_image_without_the_program_of_the_agent"),
    Broken("the program is in the image of every task", "_in_images", "for task in tasks}", "for task in tasks[:1]}", f"{REFUSED}::test_the_program_is_looked_for_in_the_image_of_every_task"),
    Broken("files belong to who runs twoarm", "_refuse_user", "if owner != ours:", "if False:", f"{REFUSED}::test_an_image_whose_user_is_another"),
    Broken("an engine sees the folders of this machine", "look_into", "if not seen or", "if", f"{REFUSED}::test_an_engine_that_does_not_see_the_folders_of_this_machine"),
    Broken("an engine writes to the folders of this machine", "look_into", 'or ("written" in seen and not os.path.exists(probe))', "", f"{REFUSED}::test_an_engine_that_sees_a_copy_of_the_folders_of_this_machine"),
    Broken("an engine is tried where workspaces are", "look_into", "dir=root", "dir=None", f"{REFUSED}::test_an_engine_that_does_not_see_the_folders_of_this_machine"),
    Broken("a mount is there", "_check_agent_mounts", "if not os.path.exists(path):", "if False:", f"{REFUSED}::test_a_mount_that_does_not_exist"),
    Broken("no path has a colon", "check_mounts", 'if ":" in path:', "if False:", f"{REFUSED}::test_a_path_with_a_colon_is_refused_before_anything_is_run"),
    Broken("what takes a container is refused without one", "choose_isolation", "if wants:", "if False:", f"{REFUSED}::test_what_takes_a_container_is_refused_without_one"),
    Broken("the next run clears containers of a dry run", "_containers_left", 'return engine.clear(f"{RUN_LABEL}={token}", seconds=_ENGINE_SECONDS)', "return None", f"{LEFT}::test_the_next_run_removes_the_container_of_a_dry_run_that_was_killed"),
    Broken("no run waits long for the engine of another", "_containers_left", "seconds=_ENGINE_SECONDS", "seconds=None", f"{LEFT}::test_an_engine_that_hinders_is_told_in_a_line_and_stops_no_run"),
    Broken("an engine that fails has not removed anything", "Engine.clear", "if done.returncode else None", "if False else None", f"{LEFT}::test_an_engine_that_hinders_is_told_in_a_line_and_stops_no_run"),
    Broken("what cannot be cleared now is kept for later", "clear_dry_runs", "if engine in hindered:", "if False:", f"{LEFT}::test_an_engine_that_hinders_is_told_in_a_line_and_stops_no_run"),
    Broken("an engine answers or is killed", "Engine.ask", "timeout=seconds", "timeout=None", f"{HUNG}::test_every_question_has_its_limit"),
    Broken("a supervisor kills a client that hangs", "processes.call", "if not done and time.monotonic() > deadline:", "if False:", f"{HUNG}::test_a_supervisor_waits_for_no_engine_that_hangs"),
    Broken("what is removed by its name has a limit", "leftovers._asked", "timeout=_SECONDS", "timeout=None", f"{HUNG}::test_nor_does_what_removes_containers_by_their_name"),
    Broken("a look into an image that is ended leaves no container", "look_into", 'engine.ask("rm", "-f", "-v", name)', "pass", f"{LEFT}::test_whoever_looks_into_an_image_and_is_ended_leaves_no_container"),
]  # fmt: skip
