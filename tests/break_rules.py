"""Break every rule once, on purpose, and see a test go red.

    make broken

Each entry is a rule, the file it lives in, the code that keeps it and code that breaks it. An entry
whose code is no longer there, or that no test notices, fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Broken(NamedTuple):
    rule: str
    file: str
    kept: str
    broken: str
    tests: str = "tests/test_rules.py"


READING = "tests/test_reading.py"
CLI = "tests/test_cli.py"
CI = "tests/test_ci.py"
DRAWING = "tests/test_drawing.py"
PAGE = "tests/test_page.py"

BROKEN = [
    Broken("total tokens are all four counts", "metric.py", '"output_tokens", "cache_read_tokens", "cache_write_tokens")', '"output_tokens", "cache_read_tokens")'),
    Broken("non-cache tokens are input and output", "metric.py", 'parts=("input_tokens", "output_tokens"),', 'parts=("input_tokens",),'),
    Broken("a run's own total", "record.py", "parts = (self.non_cache_tokens, self.cache_read_tokens, self.cache_write_tokens)", "parts = (self.non_cache_tokens, self.cache_read_tokens)"),
    Broken("a run's null part makes null", "record.py", "if self.input_tokens is None or self.output_tokens is None:", "if self.input_tokens is None:"),
    Broken("a null is not zero (lists)", "column.py", "return [value for value in column if not math.isnan(value)]", "return [0.0 if math.isnan(value) else value for value in column]"),
    Broken("a null is not zero (arrays)", "column.py", "return column[~missing] if missing.any() else column", "return np.nan_to_num(column)"),
    Broken("the median of an even number (lists)", "column.py", "low, high = ordered[middle - 1 + size % 2], ordered[middle]", "low, high = ordered[middle], ordered[middle]"),
    Broken("success rate", "summarize.py", "success_rate=successes / len(arm)", "success_rate=successes / (len(arm) + 1)"),
    Broken("average cost over the runs with a cost", "summarize.py", "total_cost / len(costs)", "total_cost / len(arm)"),
    Broken("solved per dollar counts successes with a cost", "summarize.py", "solved / total_cost if", "successes / total_cost if"),
    Broken("no solved per dollar at zero cost", "summarize.py", "if total_cost else None", "if total_cost is not None else None"),
    Broken("missing values are counted", "summarize.py", "len(arm) - len(values)", "len(values)"),
    Broken("a delta is candidate minus baseline", "column.py", "return [a - b for a, b in zip(left, right, strict=True)]", "return [b - a for a, b in zip(left, right, strict=True)]"),
    Broken("a delta is candidate minus baseline (arrays)", "column.py", "return left - right", "return right - left"),
    Broken("pairs share task and repeat", "column.py", "return [a * step + b for a, b in zip(major, minor, strict=True)]", "return [b for a, b in zip(major, minor, strict=True)]"),
    Broken("unpaired runs", "pair.py", "2 * len(both.left)", "len(both.left)"),
    Broken("mean of deltas", "pair.py", 'figures[f"mean_{metric.delta}"] = column.mean(deltas)', 'figures[f"mean_{metric.delta}"] = column.median(deltas)'),
    Broken("median of deltas", "pair.py", 'figures[f"median_{metric.delta}"] = column.median(deltas)', 'figures[f"median_{metric.delta}"] = column.mean(deltas)'),
    Broken("a tie holds", "decide.py", 'standing != "worse"', 'standing == "better"'),
    Broken("more success is better", "decide.py", "baseline.success_rate, higher=True", "baseline.success_rate, higher=False"),
    Broken("less time is better", "decide.py", "            baseline.median_duration_seconds,\n            higher=False", "            baseline.median_duration_seconds,\n            higher=True"),
    Broken("fewer tokens are better", "decide.py", "            baseline.median_non_cache_tokens,\n            higher=False", "            baseline.median_non_cache_tokens,\n            higher=True"),
    Broken("the token gate leaves the cache out", "decide.py", "candidate.median_non_cache_tokens,\n            baseline.median_non_cache_tokens", "candidate.median_total_tokens,\n            baseline.median_total_tokens"),
    Broken("an unjudged gate is insufficient data", "decide.py", "if any(gate.holds is None for gate in gates):", "if all(gate.holds is None for gate in gates):"),
    Broken("all three must hold", "decide.py", "if all(gate.holds for gate in gates):", "if gates[0].holds:"),
    Broken("all three must fail", "decide.py", "if not any(gate.holds for gate in gates):", "if not all(gate.holds for gate in gates):"),
    Broken("mixed", "decide.py", 'MIXED = "mixed results - inspect paired deltas"', 'MIXED = "mixed results"'),
    Broken("five repeats", "decide.py", "MINIMUM_REPEATS = 5", "MINIMUM_REPEATS = 4"),
    Broken("ten repeats preferred", "decide.py", "PREFERRED_REPEATS = 10", "PREFERRED_REPEATS = 9"),
    Broken("every short task-arm is listed", "decide.py", "if entry.repeats < MINIMUM_REPEATS)", "if 0 < entry.repeats < MINIMUM_REPEATS)"),
    Broken("no promotion without repeats", "decide.py", 'if adequacy.status == "below minimum":', "if False:"),
    Broken("only a preferred candidate is promoted", "decide.py", 'if decision == f"prefer {candidate}":', "if decision:"),
    Broken("high spread of a task", "tasks.py", "HIGH_SPREAD = 0.5", "HIGH_SPREAD = 0.1"),
    Broken("success that flips is high variance", "tasks.py", "if 0 < passed < part.stop - part.start:", "if 0 < passed:"),
    Broken("a quarter of the tasks", "decide.py", "HIGH_VARIANCE_SHARE = 0.25", "HIGH_VARIANCE_SHARE = 0.2"),
    Broken("nothing differs is said", "caveats.py", 'elif all(gate.standing == "tied" for gate in gates):', "elif False:"),
    Broken("a failed gate is explained", "diagnose.py", "if gate.holds is False)", "if gate.holds is None)"),
    Broken("infra failures are excluded", "screen.py", 'counted = [outcome.failure != "infra" for outcome in runs.outcomes]', "counted = [True for outcome in runs.outcomes]"),
    Broken("agent failures count", "screen.py", 'counted = [outcome.failure != "infra" for outcome in runs.outcomes]', "counted = [outcome.failure is None for outcome in runs.outcomes]"),
    Broken("exit code 86", "runs.py", "INFRA_EXIT_CODE = 86", "INFRA_EXIT_CODE = 87"),
    Broken("acceptance never ran", "runs.py", "NEVER_RAN_EXIT_CODE = 99", "NEVER_RAN_EXIT_CODE = 98"),
    Broken("acceptance never ran needs a failed agent", "runs.py", "if agent and line.acceptance_exit_code", "if line.acceptance_exit_code"),
    Broken("the older name of the exit code", "runs.py", "if line.agent_exit_code is not None else line.opencode_exit_code", "if line.agent_exit_code is not None else None"),
    Broken("a run's own word comes first", "runs.py", "if line.failure is not UNSET:", 'if line.failure == "infra":'),
    Broken("an agent's failure is no success", "screen.py", "success = column.zeroed(success, failed)", "pass"),
    Broken("kept infra failures", "screen.py", "for arm in () if keep_infra else both:", "for arm in both:"),
    Broken("nulls as zero on request", "screen.py", 'if missing == "zero":', "if False:"),
    Broken("other arms are excluded", "screen.py", 'excluded.append(Excluded(reason="another arm"', '(lambda _: None)(Excluded(reason="another arm"'),
    Broken("duplicates are an error", "screen.py", "        if problems:\n            raise", "        if False:\n            raise"),
    Broken("the first of duplicates", "screen.py", 'unwanted = again if duplicates == "first"', 'unwanted = again if duplicates == "last"'),
    Broken("arms are told by name", "screen.py", 'without_x == f"without_{x}"', "True"),
    Broken("a misspelt arm is refused", "screen.py", "if given is not None and given not in found:", "if False:"),
    Broken("an unknown key is said", "caveats.py", "if runs.unknown_keys:", "if False:"),
    Broken("missing values are said", "caveats.py", "        if partly:", "        if False:"),
    Broken("unpaired runs are said", "caveats.py", "if paired.unpaired_runs:", "if False:"),
    Broken("tasks in one arm are said", "caveats.py", "        if only:", "        if False:"),
    Broken("negative numbers are refused", "record.py", "Number = Annotated[float, Meta(ge=0, le=LARGEST)]", "Number = Annotated[float, Meta(le=LARGEST)]", READING),
    Broken("numbers above 2^53 are refused", "record.py", "Number = Annotated[float, Meta(ge=0, le=LARGEST)]", "Number = Annotated[float, Meta(ge=0)]", READING),
    Broken("repeats count from 1", "record.py", "Repeat = Annotated[int, Meta(ge=1", "Repeat = Annotated[int, Meta(ge=0", READING),
    Broken("a duration is always measured", "record.py", "duration_seconds: Number", "duration_seconds: MaybeNumber", READING),
    Broken("a cost may be null", "record.py", "total_cost_usd: MaybeNumber", "total_cost_usd: Number"),
    Broken("a cut gzip file is refused", "runfile.py", "    if not inflater.eof:\n        raise", "    if False:\n        raise", READING),
    Broken("a cut zstd file is refused", "runfile.py", "    if not unpacker.eof:\n        raise", "    if False:\n        raise", READING),
    Broken("bad lines stop the scoring", "runfile.py", "if reader.problem_count and not skip_bad:", "if False:", READING),
    Broken("blank lines count for positions", "runfile.py", "            line += len(lines)", "            line += len([one for one in lines if one])", READING),
    Broken("endless lines are refused", "runfile.py", "            if held > LONGEST_LINE:\n                # Keep", "            if False:\n                # Keep", READING),
    Broken("do not promote is exit code 1", "cli.py", "DO_NOT_PROMOTE = 1", "DO_NOT_PROMOTE = 0", CLI),
    Broken("not enough data is exit code 3", "cli.py", "NOT_ENOUGH_DATA = 3", "NOT_ENOUGH_DATA = 0", CLI),
    Broken("bad input is exit code 2", "cli.py", "BAD = 2", "BAD = 0", CLI),
    Broken("files are renamed into place", "cli.py", 'f".{name}.{os.getpid()}.tmp"', "name", CLI),
    Broken("a cell ends at its bar", "quote.py", '.replace("|", "\\\\|")', "", CLI),
    Broken("control characters are shown", "quote.py", "    if text.isprintable():\n        return text", "    return text", CLI),
    Broken("a fence is longer than any inside", "quote.py", '"`" * (longest + 1)', '"`"', CLI),
    Broken("a flip to passed", "drawing.py", "gained=column.count_equal(deltas, 1.0)", "gained=column.count_equal(deltas, -1.0)", DRAWING),
    Broken("tasks are drawn in order of their mean", "drawing.py", "found.sort(key=lambda task: (task.mean, task.task_id))", "pass", DRAWING),
    Broken("every pair is drawn while there are few", "drawing.py", "MOST_PAIRS = 1_500", "MOST_PAIRS = 10", DRAWING),
    Broken("no more tasks are drawn than fit", "drawing.py", "MOST_TASKS = 500", "MOST_TASKS = 5_000", DRAWING),
    Broken("no more runs are drawn than fit", "drawing.py", "MOST_RUNS = 200", "MOST_RUNS = 2_000", DRAWING),
    Broken("zero has no place on a log axis", "drawing.py", "positive = column.above_zero(measured)", "positive = measured", DRAWING),
    Broken("many starts are counted", "drawing.py", "if total > MOST_STARTS:", "if False:", DRAWING),
    Broken("thinning keeps both ends", "column.py", "[i / (most - 1) for i in range(most)]", "[i / most for i in range(most)]", DRAWING),
    Broken("the drawing stays out of the file", "analysis.py", "msgspec.json.encode(self.file)", "msgspec.json.encode(self)", f"{PAGE}::test_the_drawing_is_not_in_the_analysis_file"),
    Broken("names are text in HTML", "quote.py", '.replace("<", "&lt;")', "", f"{PAGE}::test_names_in_sentences_become_code"),
    Broken("names are text in a script", "quote.py", 'for character in "<>&\\u2028\\u2029":', 'for character in "&":', f"{PAGE}::test_json_in_a_script_cannot_end_it"),
    Broken("the page loads nothing", "render/html.py", "default-src 'none'", "default-src *", f"{PAGE}::test_the_policy_allows_what_is_in_the_file_and_nothing_else"),
    Broken("the page forbids eval", "render/page/page.js", "ast: true", "ast: false", f"{PAGE}::test_a_page_draws_every_chart_without_a_complaint_or_a_request"),
    Broken("a chart keeps its text", "render/page/page.js", "vegaEmbed(inner, spec", "vegaEmbed(place, spec", f"{PAGE}::test_a_page_draws_every_chart_without_a_complaint_or_a_request"),
    Broken("what was not measured is sorted last", "render/page/page.js", "if (left === undefined || right === undefined) {", "if (false) {", f"{PAGE}::test_what_was_not_measured_is_sorted_last_both_ways"),
    Broken("numbers are sorted as numbers", "render/page/page.js", 'head.className === "number"', "false", f"{PAGE}::test_a_table_is_sorted_by_mouse_and_keyboard"),
    Broken("labels that look alike stay apart", "render/page/charts.py", "label if seen[label] == 1 else", "label if seen[label] else", f"{PAGE}::test_hostile_names_show_as_text"),
    Broken("shape tells the sides apart", "render/page/charts.py", 'range=["circle", "square", "diamond"]', 'range=["circle", "circle", "circle"]', f"{PAGE}::test_colour_is_never_the_only_signal"),
    Broken("less is better but for success", "render/page/charts.py", "higher = unit == SUCCESS.unit", "higher = True", f"{PAGE}::test_colour_is_never_the_only_signal"),
    Broken("the command says what was not usual", "render/page/provenance.py", "if value == _USUAL.get(name):", "if True:", f"{PAGE}::test_the_command_of_the_page_gives_the_same_figures"),
    Broken("a missing extra is named", "render/html.py", "except ImportError as error:", "except KeyError as error:", f"{PAGE}::test_a_page_without_its_extra_is_an_error_that_names_it"),
    Broken("a percent sign in an annotation", "quote.py", '.replace("%", "%25")', "", CI),
    Broken("a colon in a title", "quote.py", '.replace(":", "%3A")', "", CI),
    Broken("the comment has its marker", "render/github.py", "        MARKER,\n", "", CI),
    Broken("a comment is not too long", "render/github.py", "if len(text.encode()) > LONGEST:", "if False:", CI),
    Broken("only a refusal is an error", "render/github.py", '"error" if reading.verdict == "do not promote"', '"error" if reading.verdict', CI),
    Broken("a gate not judged is skipped", "render/junit.py", 'None: "skipped"', 'None: "passed"', CI),
    Broken("adequacy is a test case", "render/junit.py", 'outcome="passed" if enough else "failure"', 'outcome="passed"', CI),
    Broken("the step summary is added to", "cli.py", 'with open(path, "a"', 'with open(path, "w"', CI),
    Broken("the step summary comes with --out", "cli.py", 'if given.out is not None and os.environ.get("GITHUB_STEP_SUMMARY"):', 'if os.environ.get("GITHUB_STEP_SUMMARY"):', CI),
    Broken("stable from 95 %", "render/reading.py", "STABLE = 0.95", "STABLE = 0.94", CI),
    Broken("fairly stable from 80 %", "render/reading.py", "FAIRLY_STABLE = 0.80", "FAIRLY_STABLE = 0.79", CI),
    Broken("a rule without evidence is no advice to promote", "render/reading.py", 'elif evidence is not None:\n            yield (', 'elif False:\n            yield (', CI),
    Broken("an interval over zero is said", "render/reading.py", "clear = not found.low <= 0.0 <= found.high", "clear = True", CI),
    Broken("no bar when piped", "cli.py", "if not sys.stderr.isatty():", "if False:", f"{CLI}::test_nothing_is_drawn_when_standard_error_is_piped"),
    Broken("a bar for whoever has to wait", "bar.py", "PATIENCE_SECONDS = 0.5", "PATIENCE_SECONDS = 50", f"{CLI}::test_a_terminal_that_has_to_wait_sees_a_progress_bar"),
    Broken("progress counts all files", "runfile.py", "self._done += len(block)", "self._done = len(block)", f"{CLI}::test_progress_counts_the_bytes_of_all_files"),
    Broken("nothing that differs is no advice to promote", "render/reading.py", 'if verdict == "promote" and not tied:', 'if verdict == "promote":', CI),
]  # fmt: skip


def survives(entry: Broken) -> str | None:
    """What is wrong with the entry, if the tests do not notice it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        file = copy / "twoarm" / entry.file
        text = file.read_text(encoding="utf-8")
        if entry.kept not in text:
            return f"{entry.rule}: {entry.file} no longer has: {entry.kept}"
        file.write_text(text.replace(entry.kept, entry.broken), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", entry.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
        return None if result.returncode == 1 else f"{entry.rule}: broken, and no test noticed"


def main() -> int:
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        unnoticed = [found for found in workers.map(survives, BROKEN) if found]
    sys.stdout.write("".join(f"{line}\n" for line in unnoticed))
    sys.stdout.write(f"{len(BROKEN) - len(unnoticed)} of {len(BROKEN)} broken rules noticed\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
