"""Rules of results over time."""

from tests.broken.entry import Broken

ALARMS = "tests/history/test_alarms.py"
LOG = "tests/history/test_log.py"
WORDS = "tests/history/test_history_words.py"
SAME = "tests/history/test_same_runs.py"

REMEMBERING = [
    Broken("the error is shared by all places", "alarms._first_shift", "if least < spent / (results - 1):", "if least < spent:", ALARMS),
    Broken("the error is shared by all results", "alarms._first_shift", "spent = alpha / (results * (results - 1))", "spent = alpha", ALARMS),
    Broken("a place explains most", "alarms._first_shift", "at = int(np.argmax(splits.gain))", "at = int(np.argmin(splits.p))", ALARMS),
    Broken("nothing is certain that never varies", "alarms._p_of", "usable = (tasks >= FEWEST_TASKS) & (variance > 0.0)", "usable = tasks >= FEWEST_TASKS", ALARMS),
    Broken("an alarm needs six tasks", "alarms._p_of", "usable = (tasks >= FEWEST_TASKS) & (variance > 0.0)", "usable = variance > 0.0", ALARMS),
    Broken("tasks of one side do not count", "_Sums.split", "used = (early[0] > 0) & (late[0] > 0) & (early[0] + late[0] > 2)", "used = early[0] + late[0] > 2", ALARMS),
    Broken("degrees of freedom are those of the tasks", "alarms._p_of", "stdtr(variance**2 / of_each,", "stdtr(1e9,", ALARMS),
    Broken("after a change the history starts over", "alarms.shifts", "start = shift.since", "start = len(effects)", ALARMS),
    Broken("gates share the error", "overview._alarms", "alpha = (1.0 - level) / len(GATES)", "alpha = 1.0 - level", "tests/history/test_log.py::test_three_gates_share_the_error"),
    Broken("no result is added twice", "add_entry", "if same_runs(known, entry):", "if False:", LOG),
    Broken("no result counts twice", "overview._counted_once", "if first is None:", "if True:", SAME),
    Broken("the same runs in another file are the same", "same_runs.same_runs", "if ours.runs_sha256 is not None and theirs.runs_sha256 is not None:", "if False:", SAME),
    Broken("the order of lines changes nothing", "same_runs.runs_digest", "sorted(lines)", "lines", f"{SAME}::test_the_same_runs_in_another_file_are_not_added"),
    Broken("another arm is not among the runs of a result", "same_runs.runs_digest", "& np.isin(runs.arm, arms)", "", f"{SAME}::test_the_same_runs_in_another_file_are_not_added"),
    Broken("another part is other runs", "same_runs.runs_digest", "asked_for(runs, options) &", "", f"{SAME}::test_parts_of_a_run_that_grew_are_other_runs"),
    Broken("runs that say nothing may be others", "same_runs.runs_digest", "if not (figures > 0.0).any():", "if False:", f"{SAME}::test_runs_that_only_say_whether_they_succeeded_may_look_alike"),
    Broken("what was not read is not the same", "same_runs.same_runs", "bool(ours.inputs_sha256) and", "", f"{SAME}::test_runs_in_memory_are_not_taken_for_others"),
    Broken("no file is overwritten", "write_new_file", "os.link(temporary, path)", "os.replace(temporary, path)", LOG),
    Broken("the interval is that of the report", "entry._change", "getattr(whole, headline)", "whole.tasks_like_these", f"{LOG}::test_the_interval_is_the_one_that_the_report_shows"),
    Broken("models make a series", "history.entry.entry_of", "models=tested.models,", "models=(),", LOG),
    Broken("agents make a series", "history.entry.entry_of", "agents=tested.agents,", "agents=(),", LOG),
    Broken("tasks make a series", "_suites_digest", "return _digest(graders)", 'return ""', LOG),
    Broken("what is asked makes a series", "studies._suite_digest", "[frozen.digests.get(key, \"\") for key in task_keys(task.id)],", "", LOG),
    Broken("results are in the order of their runs", "read_entries", "key=lambda each: (moment(each[1]), each[0])", "key=lambda each: each[1].inputs_sha256", LOG),
    Broken("a series is that of its key", "entry._check", 'if entry.series != _digest(msgspec.to_builtins(entry.key))[:12]:', "if False:", LOG),
    Broken("scales are not mixed", "effects_of", "if change and change.scale == scale", "if change", LOG),
    Broken("every bad file is named", "read_entries", "if problems.count:", "if False:", LOG),
    Broken("a fraction of a second is later than none", "entry.moment", 'entry.time_utc.removesuffix("Z")', "entry.time_utc", "tests/history/test_log.py::test_a_fraction_of_a_second_is_later_than_none"),
    Broken("times are real", "entry._is_time", "bool(datetime.fromisoformat(match[1]))", "True", "tests/history/test_log.py::test_a_changed_file_is_refused"),
    Broken("no report is written among results", "log._show", "os.path.realpath(outputs.out) == os.path.realpath(folders[0])", "outputs.out == folders[0]", f"{LOG}::test_reports_are_not_written_among_results"),
    Broken("what is no result says so", "history.entry._read", "if schema != SCHEMA:", "if False:", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("no estimate is absurdly large", "entry._check_interval", "least <= value <= _LARGEST_FIGURE", "least <= value", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("no ratio is below zero", "entry._check_interval", 'least = 0.0 if change.scale == "ratio" else -_LARGEST_FIGURE', "least = -_LARGEST_FIGURE", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("an interval has its low end first", "entry._check_interval", "change.low > change.high", "False", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("no median is absurdly large", "entry._check_arm", "not 0.0 <= median <= _LARGEST_FIGURE", "median < 0.0", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("no more runs succeed than there are", "entry._check_arm", "0 <= arm.successes <= arm.runs <= _MOST_RUNS", "0 <= arm.successes and arm.runs <= _MOST_RUNS", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("a level is one that a result can have", "entry._check", "if not LOWEST_LEVEL <= entry.level <= HIGHEST_LEVEL:", "if False:", f"{LOG}::test_a_changed_file_is_refused"),
    Broken("a history says of which tasks it is", "history.entry._chosen", "if chosen is None:", "if True:", WORDS),
    Broken("an older result is not what the newest is", "history.series_said", "series.results[-1]", "series.results[0]", WORDS),
    Broken("a result without a commit has its label", "history._table", "brief=any(each.label and not each.commit for each in results)", "brief=False", WORDS),
    Broken("a result with a commit goes by that", "history._table", "brief=any(each.label and not each.commit for each in results)", "", WORDS),
    Broken("another level is named", "history._caveats", "if earlier.level != later.level:", "if False:", WORDS),
    Broken("no change is absurdly large", "entry._check", "if abs(effect) > _LARGEST[change.scale]:", "if False:", "tests/history/test_log.py::test_a_changed_file_is_refused"),
]  # fmt: skip
