"""Rules of tags of tasks, of chosen tasks, and of what single tasks can tell."""

from tests.broken.entry import Broken

CHOSEN = "tests/compare/test_chosen_tasks.py"
TOLD = "tests/result/test_chosen_tasks.py"
BY_TAG = "tests/evidence/test_by_tag.py"
SINGLE = "tests/evidence/test_single_tasks.py"
TABLE = "tests/programs/test_table_checks.py"
RUN = "tests/run/test_tags.py"

TAGGING = [
    Broken("a tag that no task has is refused", "chosen._tagged", "if tag not in known:", "if False:", CHOSEN),
    Broken("records without tags are refused", "chosen._tagged", "if not known:", "if False:", CHOSEN),
    Broken("a name that no task has is refused", "_like", "if not matches.any():", "if False:", CHOSEN),
    Broken("both ways to choose have to hold", "of_tasks", "wanted &= _like(", "wanted |= _like(", CHOSEN),
    Broken("a choice of nothing is refused", "of_tasks", "if not wanted.any():", "if False:", CHOSEN),
    Broken("names are matched as they are spelled", "_like", "fnmatchcase(task, pattern)", "fnmatchcase(task.lower(), pattern.lower())", CHOSEN),
    Broken("other tasks are left out", "screen._apart", "if options.tag is not None or options.task is not None:", "if False:", CHOSEN),
    Broken("runs left out twice are counted once", "screen.screen", "kept, lines = ([rows[asked[rows]] for rows in side] for side in (kept, lines))", "pass", CHOSEN),
    Broken("all tasks are no choice", "_chosen_tasks", "if tasks < of else None", "", CHOSEN),
    Broken("tasks of other arms are not left out", "_chosen_tasks", "compared = np.isin(runs.arm, codes)", "compared = runs.arm >= 0", CHOSEN),
    Broken("what was tested is of the chosen tasks", "asked_for", "wanted &= of_tasks(runs, options)", "pass", CHOSEN),
    Broken("a word that is empty chooses nothing", "Options._check_words", "or not words or not all(isinstance(w, str) and w for w in words)", "", CHOSEN),
    Broken("tags that differ are refused", "screen.screen", "refuse_two_tags(runs)", "pass", CHOSEN),
    Broken("tags that differ are found by check", "check.check", "*find_two_tags(runs),", "*(),", CHOSEN),
    Broken("the order of tags does not matter", "TagBuilder._code", "tuple(sorted(set(tags)))", "tuple(tags)", CHOSEN),
    Broken("no tags say nothing", "TagBuilder._code", "if not tags or", "if", CHOSEN),
    Broken("runs before the first tag have none", "TagBuilder.add", "self._fill(first_row)", "pass", CHOSEN),
    Broken("runs after the last tag have none", "TagBuilder.finish", "self._fill(rows)", "pass", CHOSEN),
    Broken("reports say of how many tasks", "tasks_counted", "if chosen is None", "if True", TOLD),
    Broken("a promotion says what it is about", "of_chosen_tasks", "if chosen is None:", "if True:", TOLD),
    Broken("a choice is a caveat", "chosen_caveats", "if chosen is None:", "if True:", TOLD),
    Broken("a plan is no verdict", "chosen_caveats", '_LATE if verdict else ""', "_LATE", TOLD),
    Broken("JUnit says of how many tasks", "junit._suite", "if analysis.chosen_tasks is not None:", "if False:", TOLD),
    Broken("the command of a page has each choice", "provenance._options", 'yield from (f"{flag}={each}" for each in value)', 'yield f"{flag}={_written(value)}"', TOLD),
    Broken("the tag of a run is no choice of score", "run._options", "taken(Options, given, tag=None)", "taken(Options, given)", TOLD),
    Broken("intervals by tag share the error", "weigh_tags", "(1.0 - frame.level) / max(count, 1)", "(1.0 - frame.level)", BY_TAG),
    Broken("a tag of all tasks tells nothing", "by_tag._flags", "if not flags.all()", "if True", BY_TAG),
    Broken("few tasks with a tag are these very tasks", "by_tag._change", "if many", "if True", BY_TAG),
    Broken("tasks of one family with a tag are few", "by_tag._change", "len(runs.independent)", "int(runs.shared.sum())", BY_TAG),
    Broken("the tags of most tasks are looked at", "weigh_tags", "key=lambda tag: (-int(tagged[tag].sum()), tag)", "key=lambda tag: tag", BY_TAG),
    Broken("a metric that a tag lacks has no share", "weigh_tags", ").shared.any()]", ").shared is not None]", BY_TAG),
    Broken("differences are moved by their noise", "shrunk_means", "shrink = noise.variance * weight", "shrink = 0.0 * weight", SINGLE),
    Broken("a large variance is as likely as a small one", "shrunk_means", "np.exp(fits - fits.max()) * spreads", "np.exp(fits - fits.max())", SINGLE),
    Broken("what tasks may differ by is part of the interval", "shrunk_means", "second += chance * (within + middle**2)", "second += chance * middle**2", SINGLE),
    Broken("tasks that show the same are no error", "shrunk_means", "float(deltas.std()) or math.sqrt(float(noise.variance.mean()))", "float(deltas.std())", SINGLE),
    Broken("noise borrows from all tasks", "noise_of", "(squares + lent * pooled) / (own + lent)", "squares / own", SINGLE),
    Broken("noise is pooled where tasks are alike in it", "_lent", "return math.inf if apart <= 0.0 else _LEAST_LENT + 2.0 / apart", "return _LEAST_LENT", SINGLE),
    Broken("rates are moved together", "shrunk_rates", "chances = np.exp(fits - fits.max()) * odds.weights", "chances = odds.weights", SINGLE),
    Broken("an arm may pass never or always", "_odds", "(1.0 - ends.sum()) * way / way.sum()", "way / way.sum()", SINGLE),
    Broken("half of the tasks may break", "_odds", "*((only, 0.25) for only in _HALF * np.eye(4)),", "", SINGLE),
    Broken("small changes are likelier at first", "_odds", "gap * deviation * chance / (1.0 + middle**2)", "gap * deviation * chance", SINGLE),
    Broken("levels are those of the likeliest ways", "shrunk_rates", "likely @ (odds.weights @ odds.ways)", "likely @ odds.ways.mean(axis=0)", SINGLE),
    Broken("levels are fitted", "shrink._levels", "for _ in range(_ROUNDS):", "for _ in range(1):", SINGLE),
    Broken("many runs are taken for fewer", "shrunk_rates", "scale = np.minimum(1.0, _MOST_RUNS / sizes)", "scale = np.ones(sizes.shape)", SINGLE),
    Broken("a part of the tasks has its own place", "shrunk_rates", "some = slice(at, at := at + len(likely))", "some = slice(0, len(likely))", SINGLE),
    Broken("few tasks tell nothing of one", "single_tasks.shrunk", "if sizes.shape[1] < FEWEST_TASKS:", "if False:", SINGLE),
    Broken("what is played back tells nothing", "single_tasks.shrunk", "if noise is None or not noise.variance.all():", "if noise is None:", SINGLE),
    Broken("a task is better or worse if that is clear", "tasks._task", "clear if clear in ROLES else task.standing", "task.standing", SINGLE),
    Broken("chosen tasks are another series", "entry._suite_digest", "if comparison.screening.chosen_tasks is None:", "if True:", "tests/history/test_log.py"),
    Broken("tags are in lines of missing shards", "merged_lines", '"task_tags": tags_of.get(trial.task) or None', '"task_tags": None', "tests/run/test_merge.py::test_the_tags_of_tasks_are_in_the_lines_of_missing_shards"),
    Broken("tags of a table have commas between them", "_Row.tags", 'value.split(",")', "[value]", TABLE),
    Broken("tags of a cell may be a list in JSON", "_Row.tags", 'value.lstrip().startswith("[")', "False", TABLE),
    Broken("a cell that is no JSON is refused", "_json_list", "(ValueError, RecursionError)", "RecursionError", TABLE),
    Broken("a cell that is nested without end is refused", "_json_list", "(ValueError, RecursionError)", "ValueError", TABLE),
    Broken("tags of a suite are in the records", "_completed", '"task_tags": tags_of.get(trial.task)', '"task_tags": None', RUN),
]  # fmt: skip
