"""Break every rule once, on purpose, and see a test go red.

    make broken                             all of them, about ten minutes
    make broken ONLY=tests/test_rules.py    those that one file of tests should notice

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
PATIENCE_SECONDS = 120


class Broken(NamedTuple):
    rule: str
    file: str
    kept: str
    broken: str
    tests: str = "tests/test_rules.py"


READING = "tests/test_reading.py"
LOST = "tests/test_nothing_lost.py"
CLI = "tests/test_cli.py"
EVIDENCE = "tests/test_evidence.py"
KERNELS = "tests/test_kernels.py"
FORMATS = "tests/test_collect_formats.py"
RULES = "tests/test_collect_rules.py"
BAD_INPUT = "tests/test_collect_bad.py"
COLLECT_CLI = "tests/test_collect_cli.py"
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
    Broken("solved per dollar counts successes with a cost", "summarize.py", "_finite(solved / total_cost) if", "_finite(successes / total_cost) if"),
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
    Broken("the older name of the exit code", "runs.py", "agent = _known(line.opencode_exit_code)", "agent = None"),
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
    Broken("a cut gzip file is refused", "stream.py", "    if not inflater.eof:\n        raise", "    if False:\n        raise", READING),
    Broken("a cut zstd file is refused", "stream.py", "    if not unpacker.eof:\n        raise", "    if False:\n        raise", READING),
    Broken("bad lines stop the scoring", "runfile.py", "if reader.bad_lines and not (skip_bad and len(reader.builder)):", "if False:", READING),
    Broken("blank lines count for positions", "runfile.py", "            line += len(batch.lines)", "            line += len([one for one in batch.lines if one])", READING),
    Broken("a short read is not the end", "stream.py", 'second = next(blocks, b"") if first else b""', 'second = next(blocks, b"") if len(first) == _BLOCK else b""', READING),
    Broken("endless lines are refused", "stream.py", "            if held > LONGEST_LINE:\n                # Keep", "            if False:\n                # Keep", READING),
    Broken("a key given twice is noticed in a batch", "layout.py", "        return quotes == _quotes_again(text)", "        return True", LOST),
    Broken("a key given twice is noticed in a line", "layout.py", "    return _quotes(found) == _quotes_again(text)", "    return True", LOST),
    Broken("a quote may be escaped in two ways", "layout.py", "    return quotes + escaped", "    return quotes", LOST),
    Broken("a line is counted or reported", "runfile.py", "        if read != accounted:", "        if False:", LOST),
    Broken("numbers out of range are named", "badline.py", "            *_out_of_range(found, where),\n", "", LOST),
    Broken("a key left out is a null", "runs.py", "    return None if value is UNSET else value", "    return value", LOST),
    Broken("a pause is not the end", "stream.py", "            _wait(stream, source)\n            continue", "            return", LOST),
    Broken("a stream that fails is said", "stream.py", "except (OSError, EOFError, ValueError) as error:", "except ZeroDivisionError as error:", LOST),
    Broken("a digest needs no thread", "stream.py", "except (RuntimeError, MemoryError):", "except ZeroDivisionError:", LOST),
    Broken("frames that may be skipped", "stream.py", "first.startswith((_ZSTD, *_ZSTD_SKIPPABLE))", "first.startswith(_ZSTD)", LOST),
    Broken("memory that runs out is said", "runfile.py", "    except MemoryError:", "    except ZeroDivisionError:", LOST),
    Broken("do not promote is exit code 1", "cli.py", "DO_NOT_PROMOTE = 1", "DO_NOT_PROMOTE = 0", CLI),
    Broken("not enough data is exit code 3", "cli.py", "NOT_ENOUGH_DATA = 3", "NOT_ENOUGH_DATA = 0", CLI),
    Broken("a full disk is bad, also for help", "cli.py", "        return _left(leaving)", "        raise", CLI),
    Broken("a choice is one of those there are", "score.py", "if found not in _CHOICES[name]:", "if False:", EVIDENCE),
    Broken("marks are told from any first read", "stream.py", "if len(first) >= len(_ZSTD):", "if True:", READING),
    Broken("a closed pipe does not promote", "cli.py", "    except BrokenPipeError:\n", "    except ZeroDivisionError:\n", CLI),
    Broken("a check lists by line", "check.py", "return files.get(source, 0), int(line)", "return 0, 0", CLI),
    Broken("each question has its own reasons", "evidence/interval.py", "    return kept or caveats", "    return caveats", EVIDENCE),
    Broken("a check also finds runs given twice", "check.py", "(*runs.problems, *find_duplicates(runs))", "runs.problems", CLI),
    Broken("a check finds bad lines", "check.py", "(*runs.problems, *find_duplicates(runs))", "find_duplicates(runs)", CLI),
    Broken("worse by more than the margin", "evidence/grade.py", "    if found.beyond:\n", "    if False:\n", EVIDENCE),
    Broken("the report goes by the gate", "score.py", 'if gate != "rule" and decision != INSUFFICIENT:', "if False:", EVIDENCE),
    Broken("bad input is exit code 2", "cli.py", "BAD = 2", "BAD = 0", CLI),
    Broken("files are renamed into place", "cli.py", 'f".{name}.{os.getpid()}.tmp"', "name", CLI),
    Broken("a cell ends at its bar", "quote.py", '.replace("|", "\\\\|")', "", CLI),
    Broken("control characters are shown", "quote.py", "    if text.isprintable():\n        return text", "    return text", CLI),
    Broken("a fence is longer than any inside", "quote.py", '"`" * (longest + 1)', '"`"', CLI),
    Broken("the rule of six", "evidence/interval.py", "SIX = 6", "SIX = 5", EVIDENCE),
    Broken("one task says nothing about others", "evidence/means.py", "    if tasks == 1:\n        caveats.append(ONE_TASK)\n    elif tasks >= SIX or max(pairs.sizes) > 1:", "    if tasks == 0:\n        caveats.append(ONE_TASK)\n    elif tasks >= SIX or max(pairs.sizes) > 1:", EVIDENCE),
    Broken("CR2 residuals", "evidence/means.py", "/ (1.0 - n / total)", "/ 1.0", KERNELS),
    Broken("effective degrees of freedom", "evidence/means.py", "df=effective - 1.0", "df=len(sizes) - 1.0", KERNELS),
    Broken("borrowed variance", "evidence/means.py", "lent = math.fsum(weight**2 for weight, _, n in cells if n == 1) / freedom", "lent = 0.0", KERNELS),
    Broken("two pseudo pairs", "evidence/means.py", "pseudo = 2.0 / (pairs + 2.0) ** 2", "pseudo = 0.0", EVIDENCE),
    Broken("no interval of no width", "evidence/medians.py", "    if no_width(low, high):\n        support", "    if False:\n        support", EVIDENCE),
    Broken("expanded tail", "evidence/medians.py", "reach = math.sqrt(units / (units - 1.0)) * frame.quantile(df)", "reach = 1.96", EVIDENCE),
    Broken("six pairs for a median", "evidence/medians.py", "    if count < SIX:", "    if count < 2:", EVIDENCE),
    Broken("order statistics below twenty", "evidence/medians.py", "TWENTY = 20", "TWENTY = 6", EVIDENCE),
    Broken("ties of the lower median", "evidence/medians.py", "lower=upper + law[zero], upper=upper", "lower=upper, upper=upper", KERNELS),
    Broken("labels stay inside their task", "evidence/permute.py", "chosen = frame.kernel.subset_sums(values, len(values) // 2)", "chosen = frame.kernel.subset_sums(values, 1)", KERNELS),
    Broken("tests on the log scale", "evidence/permute.py", "return pairs.logs or Sides(", "return Sides(", KERNELS),
    Broken("Holm", "evidence/permute.py", "(len(known) - rank) * p", "p", KERNELS),
    Broken("a drawn test counts itself", "evidence/permute.py", "(1 + (abs(statistic) >= bound).sum()) / (frame.resamples + 1)", "(abs(statistic) >= bound).sum() * 2 / frame.resamples", KERNELS),
    Broken("stability redraws repeats", "evidence/stability.py", "((words * np.repeat(sizes, sizes)) >> 31)", "(words >> 62)", EVIDENCE),
    Broken("a task is drawn at its own size", "evidence/stability.py", "((words * np.repeat(sizes, sizes)) >> 31)", "((words * sizes.max()) >> 31)", KERNELS),
    Broken("nothing measured is no value", "evidence/stability.py", "[: int((~np.isnan(values)).sum())]", "", KERNELS),
    Broken("the next value past a block", "evidence/resample.py", "rank[past] + 1", "rank[past]", KERNELS),
    Broken("small waves of a law still weigh", "evidence/vector.py", "_NOTHING = -50.0", "_NOTHING = -5.0", KERNELS),
    Broken("a law has two halves", "evidence/vector.py", "transform[1 : (length + 1) // 2] *= 2.0", "transform[1:] *= 2.0", KERNELS),
    Broken("single runs are drawn together", "evidence/medians.py", "self._together = _single_runs(grouped.sizes)", "self._together = set()", KERNELS),
    Broken("a lone single run is drawn with another", "evidence/medians.py", "if len(single) == 1 and len(sizes) > 1:", "if False:", KERNELS),
    Broken("a tail is never nothing", "evidence/medians.py", "max(tail - slack, slack)", "tail - slack", EVIDENCE),
    Broken("the cost of single runs varies too", "evidence/repeats.py", "variance += sizes.count(1) * math.fsum(squares) / (runs - tasks)", "pass", EVIDENCE),
    Broken("runs played again are no repeats", "evidence/permute.py", "if not len(pairs) or _played_again(pairs):", "if not len(pairs):", EVIDENCE),
    Broken("a grade points where its test points", "evidence/permute.py", "return math.fsum(total / n for total, n in zip(totals, pairs.sizes, strict=True))", "return math.fsum(totals)", EVIDENCE),
    Broken("gates are weighed on shared tasks", "evidence/gates.py", "if found.estimate != gate.candidate - gate.baseline:", "if False:", EVIDENCE),
    Broken("a decision by unshared tasks is said", "evidence/weigh.py", "if on_shared != decision:", "if False:", EVIDENCE),
    Broken("unequal repeats are no difference", "evidence/gates.py", "_FAR_APART = 0.01", "_FAR_APART = 9.0", EVIDENCE),
    Broken("success of a few among thousands", "evidence/permute.py", "kept = [t for t, n in enumerate(pairs.sizes) if 0 < won[t] + lost[t] < 2 * n]", "kept = list(range(len(pairs.sizes)))", EVIDENCE),
    Broken("a task without a sign", "evidence/permute.py", "zip(totals, pairs.sizes, strict=True) if total]\n    tasks = len(means)", "zip(totals, pairs.sizes, strict=True)]\n    tasks = len(means)", EVIDENCE),
    Broken("ends that differ by rounding", "evidence/interval.py", "return not _rounded(low) < _rounded(high)", "return not low < high", EVIDENCE),
    Broken("six is for 95 %", "evidence/interval.py", "return max(SIX, math.ceil(1.0 - math.log2(1.0 - self.level)))", "return SIX", EVIDENCE),
    Broken("what was seen is inside", "evidence/means.py", "low, high = min(centre - reach, difference), max(centre + reach, difference)", "low, high = centre - reach, centre + reach", EVIDENCE),
    Broken("the kernel goes by the runs", "evidence/weigh.py", "frame = _frame(runs, len(seen), level, seed, resamples)", "frame = _frame(len(pairing), len(set(pairing.task)), level, seed, resamples)", EVIDENCE),
    Broken("relabellings by logarithms", "evidence/weigh.py", "return min(1.0, 2.0 * math.exp(-ways))", "return 2.0 / math.prod(math.comb(2 * n, n) for n in sizes)", EVIDENCE),
    Broken("one of few tasks left out", "evidence/influence.py", "if arms is not None and 2 <= len", "if arms is not None and 6 <= len", EVIDENCE),
    Broken("near the limit is at the limit", "evidence/design.py", "_NEAR = 0.005", "_NEAR = 0.0", EVIDENCE),
    Broken("a limit piles runs up", "evidence/design.py", "or below > len(at_limit) / 2", "", EVIDENCE),
    Broken("a task played again is no limit", "evidence/design.py", "if hit > 1 or tasks == 1:", "if True:", EVIDENCE),
    Broken("what is not measured cannot differ", "evidence/design.py", "known = column.measured(values)", "known = values", EVIDENCE),
    Broken("models of infra failures", "runs.py", 'if outcome[0] != "infra":', "if True:", EVIDENCE),
    Broken("a winner needs evidence", "evidence/cautions.py", "and evidence.grade.verdict != proof", "and False", EVIDENCE),
    Broken("heads are told apart", "render/text.py", "if len({shortened(name, longest) for name in names}) == len(set(names)):", "if True:", CLI),
    Broken("tables are as wide as the terminal", "render/text.py", "if sum(widths) + 2 * len(widths) <= WIDTH:", "if True:", CLI),
    Broken("a wide character takes two columns", "render/text.py", "room -= columns(word) + 1", "room -= len(word) + 1", CLI),
    Broken("a zero has no ratio", "column.py", "if min(column, default=1) > 0 else None", "if True else None", EVIDENCE),
    Broken("excluded runs that could flip", "evidence/exclusions.py", "could_flip=any(bound.decision != decision for bound in bounds)", "could_flip=False", EVIDENCE),
    Broken("the audit tries both outcomes", "evidence/exclusions.py", 'gained = arm.excluded if outcome == "passed" else 0', "gained = 0", EVIDENCE),
    Broken("a grade needs Holm", "evidence/weigh.py", "adjusted = permute.holm([finding.p for finding in findings])", "adjusted = [0.0 for finding in findings]", EVIDENCE),
    Broken("worse is worse", "evidence/grade.py", "good = (finding.direction > 0) == (finding.metric.better is Better.HIGHER)", "good = True", EVIDENCE),
    Broken("evidence on these tasks promotes nothing", "evidence/grade.py", '    if found.scope == "these_tasks":', "    if False:", EVIDENCE),
    Broken("evidence needs repeats too", "decide.py", "    if reasons:\n        return Promotion", "    if reasons and judged is None:\n        return Promotion", EVIDENCE),
    Broken("no promotion against the gates", "decide.py", 'judged is None or decision == f"prefer {arms.baseline}"', "judged is None", EVIDENCE),
    Broken("pairs must decide as all runs do", "decide.py", "if on_pairs != decision:", "if False:", EVIDENCE),
    Broken("repeats are measured ones", "tasks.py", "self.runs - self.missing.get(metric.name, 0)", "self.runs"),
    Broken("missing values are bounded upward", "evidence/exclusions.py", 'else math.inf', "else 0.0"),
    Broken("the margin of success", "evidence/grade.py", "rate.low > -margin_success", "True", EVIDENCE),
    Broken("the margin of the ratio", "evidence/grade.py", "all(one.high < limit for one in ratios)", "True", EVIDENCE),
    Broken("a margin needs a gain", "evidence/grade.py", "gain = rate.low > 0 or any(one.high < 1 for one in ratios)", "gain = True", EVIDENCE),
    Broken("separate time blocks", "evidence/design.py", "APART = 0.95", "APART = 2.0", EVIDENCE),
    Broken("different models", "evidence/design.py", "found[0] and found[1] and found[0] != found[1]", "False", EVIDENCE),
    Broken("durations cut at a limit", "evidence/design.py", "CUT = 0.20", "CUT = 2.0", EVIDENCE),
    Broken("pass@k", "evidence/repeats.py", "math.comb(n - c, k) / math.comb(n, k)", "((n - c) / n) ** k", EVIDENCE),
    Broken("failed spend counts", "evidence/repeats.py", "spend, count = column.total(costs), column.total(solved)", "spend, count = column.total([c * s for c, s in zip(costs, solved)]), column.total(solved)", EVIDENCE),
    Broken("helped and hurt", "tasks.py", 'return "helped" if ours > theirs', 'return "helped" if ours < theirs', EVIDENCE),
    Broken("one task left out", "evidence/stability.py", "weights = 1.0 - np.eye(tasks)", "weights = np.ones((tasks, tasks))", EVIDENCE),
    Broken("the seed", "evidence/resample.py", "np.random.PCG64(seed).random_raw((count + 1) // 2)", "np.random.PCG64(0).random_raw((count + 1) // 2)", EVIDENCE),
    Broken("tasks shares of the variance", "evidence/weigh.py", "repeats = min(1.0, within.variance / over.variance)", "repeats = 1.0", EVIDENCE),
    Broken("opencode: reasoning beside the output", "collect/opencode.py", "REASONING_INSIDE = (1, 3, 15)", "REASONING_INSIDE = (99,)", FORMATS),
    Broken("opencode: reasoning inside the output of old versions", "collect/opencode.py", "REASONING_INSIDE = (1, 3, 15)", "REASONING_INSIDE = (0,)", FORMATS),
    Broken("opencode: sub-agents are added", "collect/opencode.py", "spends=(*spends, *children) or None", "spends=tuple(spends) or None", FORMATS),
    Broken("opencode: missing sub-agents are said", "collect/opencode.py", "    if missing:\n", "    if False:\n", FORMATS),
    Broken("opencode: an overflow is the agent's", "collect/opencode.py", '    "ContextOverflowError": "context overflow",\n', "", FORMATS),
    Broken("opencode: errors decide before steps", "collect/opencode.py", "for error in work.errors:", "for error in ():", FORMATS),
    Broken("opencode: an unfinished step was killed", "collect/opencode.py", "    if work.unfinished:\n", "    if False:\n", FORMATS),
    Broken("opencode: no step is infra", "collect/opencode.py", "    if not work.steps:\n", "    if False:\n", FORMATS),
    Broken("opencode: stop and length end a run", "collect/opencode.py", 'ENDED = ("stop", "length")', 'ENDED = ("stop", "length", "tool-calls")', FORMATS),
    Broken("opencode: a cut answer is infra", "collect/opencode.py", 'if reason in ("unknown", "error"):', "if False:", FORMATS),
    Broken("opencode: totals tell the meaning of output", "collect/opencode.py", "        if tokens.total == outer:\n            return True", "        if tokens.total == outer:\n            return False", FORMATS),
    Broken("opencode: newer versions are refused", "collect/opencode.py", "NEWEST_MAJOR = 1", "NEWEST_MAJOR = 9", BAD_INPUT),
    Broken("harbor: the cache is inside input", "collect/harbor.py", "input=outside_cache(with_cache, read, written or 0, where=where)", "input=with_cache", FORMATS),
    Broken("harbor: an agent's own exceptions", "collect/harbor.py", '        "AgentTimeoutError",\n', "", FORMATS),
    Broken("harbor: other exceptions are infra", "collect/harbor.py", "if exception.exception_type not in AGENT_EXCEPTIONS:", "if False:", FORMATS),
    Broken("harbor: a full reward", "collect/harbor.py", "FULL_REWARD = 1.0", "FULL_REWARD = 0.5", FORMATS),
    Broken("harbor: the agent's own time", "collect/harbor.py", "duration = _agent_time(steps)", "duration = None", FORMATS),
    Broken("harbor: steps are added up", "collect/harbor.py", "steps: Sequence[_Step] = trial.step_results or (trial,)", "steps: Sequence[_Step] = (trial,)", FORMATS),
    Broken("harbor: the least reward of steps", "collect/harbor.py", "least = value if least is None else min(least, value)", "least = value if least is None else max(least, value)", FORMATS),
    Broken("harbor: no reward is infra", "collect/harbor.py", "if failure is None and reward is None:", "if False:", FORMATS),
    Broken("harbor: Claude's cache writes are split", "collect/harbor.py", 'if told.name == "claude-code":', "if False:", FORMATS),
    Broken("harbor: opencode's reasoning is added", "collect/harbor.py", "output += _reasoning(trajectory, told.version, doubts)", "pass", FORMATS),
    Broken("harbor: the configuration of an arm", "collect/harbor.py", '("config.agent", bytes(trial.config.agent)),', "", RULES),
    Broken("claude: all models count", "collect/claude_code.py", "if result.model_usage:", "if False:", FORMATS),
    Broken("claude: a message counts once", "collect/claude_code.py", "for message in messages.values()", "for _, message in spoken", FORMATS),
    Broken("claude: an API error is no success", "collect/claude_code.py", 'if not result.is_error and result.subtype == "success":', 'if result.subtype == "success":', FORMATS),
    Broken("claude: a turn limit is the agent's", "collect/claude_code.py", "    if result.subtype in AGENT_ENDS:\n", "    if False:\n", FORMATS),
    Broken("claude: no result was killed", "collect/claude_code.py", 'return agent("killed: no result was written")', "return None", FORMATS),
    Broken("codex: the cache is inside input", "collect/codex.py", "                used.cached_input_tokens,\n                used.cache_write_input_tokens,\n                where=where,", "                where=where,", FORMATS),
    Broken("codex: a resumed thread", "collect/codex.py", "before = _usage_of(folder, sidecar.resumed_from)", "pass", FORMATS),
    Broken("codex: a thread met twice", "collect/codex.py", "if earlier != where:", "if False:", FORMATS),
    Broken("codex: transient errors decide nothing", "collect/codex.py", 'if event.type == "turn.failed":', 'if event.type in ("turn.failed", "error"):', FORMATS),
    Broken("codex: the turn of the events", "collect/codex.py", "if turn.after == usage), rollout.turns[-1])", "if False), rollout.turns[-1])", FORMATS),
    Broken("codex: warnings are no tool calls", "collect/codex.py", "tools = [item for item in items if item.type in TOOLS]", "tools = items", FORMATS),
    Broken("codex: sub-agents are said", "collect/codex.py", "if any(tool.type == SUBAGENT for tool in tools):", "if False:", FORMATS),
    Broken("codex: a wrapped command", "collect/codex.py", "return parts[2] if wrapped else command", "return command", RULES),
    Broken("codex: newer versions are refused", "collect/codex.py", "NEWEST_MAJOR = 0", "NEWEST_MAJOR = 9", BAD_INPUT),
    Broken("inspect: the cache of old logs", "collect/inspect_ai.py", "        elif together:\n", "        elif False:\n", FORMATS),
    Broken("inspect: an error is infra", "collect/inspect_ai.py", "if sample.error is not None:", "if False:", FORMATS),
    Broken("inspect: a time limit is a failure", "collect/inspect_ai.py", '_FATAL_LIMITS = ("time", "working", "context")', "_FATAL_LIMITS = ()", FORMATS),
    Broken("inspect: a limit that was scored counts", "collect/inspect_ai.py", "elif not passed or sample.limit.type in _FATAL_LIMITS:", "else:", FORMATS),
    Broken("inspect: a score in between needs a threshold", "collect/inspect_ai.py", 'if value in ("P", "N") or number not in (0, 1):', "if False:", FORMATS),
    Broken("inspect: graders are left out", "collect/inspect_ai.py", "if model in used and len(used) > 1:", "if False:", FORMATS),
    Broken("inspect: newer logs are refused", "collect/inspect_ai.py", "NEWEST_VERSION = 2", "NEWEST_VERSION = 9", BAD_INPUT),
    Broken("inspect: a member has a limit", "collect/inspect_ai.py", "                if room < 0:\n", "                if False:\n", BAD_INPUT),
    Broken("inspect: all members have a limit", "collect/inspect_ai.py", "        self._left -= len(text)\n", "", BAD_INPUT),
    Broken("gemini: the cache is inside the prompt", "collect/gemini_cli.py", "input=outside_cache(used.tokens.prompt, used.tokens.cached, where=where)", "input=used.tokens.prompt", FORMATS),
    Broken("gemini: thoughts are output", "collect/gemini_cli.py", "output=used.tokens.candidates + used.tokens.thoughts", "output=used.tokens.candidates", FORMATS),
    Broken("gemini: thoughts are output (stream)", "collect/gemini_cli.py", "output=outside_cache(used.total_tokens, used.input_tokens, where=where)", "output=used.output_tokens", FORMATS),
    Broken("gemini: a turn limit is the agent's", "collect/gemini_cli.py", 'if error.code == TURN_LIMIT or "TurnLimit" in error.type:', "if False:", FORMATS),
    Broken("mini: the cache is inside the prompt", "collect/mini_swe_agent.py", "input=outside_cache(prompts, cached, where=where)", "input=prompts", FORMATS),
    Broken("mini: limits are the agent's", "collect/mini_swe_agent.py", "agent(AGENT_ENDS[status]) if status in AGENT_ENDS else infra(status)", "infra(status)", FORMATS),
    Broken("mini: an error of the evaluation is infra", "collect/mini_swe_agent.py", '("error_ids", infra("the evaluation failed"))', '("error_ids", False)', FORMATS),
    Broken("mini: newer trajectories are refused", "collect/mini_swe_agent.py", "if version not in TRAJECTORY_FORMATS:", "if False:", BAD_INPUT),
    Broken("table: input without the cache on request", "collect/table.py", "if tokens is not None and settings.input_includes_cache:", "if False:", FORMATS),
    Broken("table: reasoning is output", "collect/table.py", "        output += reasoning\n", "        pass\n", FORMATS),
    Broken("table: an empty cell is null", "collect/table.py", 'cell if cell != "" else None', "cell", FORMATS),
    Broken("impossible counts are refused", "collect/tokens.py", "    if left < 0:\n", "    if False:\n", FORMATS),
    Broken("negative counts are refused", "collect/tokens.py", "Count = Annotated[int, Meta(ge=0", "Count = Annotated[int, Meta(ge=-(2**53)", BAD_INPUT),
    Broken("an overflow is told by its text", "collect/failure.py", "    if overflowed(message):\n", "    if False:\n", FORMATS),
    Broken("zero usage is not known", "collect/gather.py", "if attempt.took_steps and not any(counts):", "if False:", RULES),
    Broken("zero usage of no steps is zero", "collect/gather.py", "if attempt.took_steps and not any(counts):", "if not any(counts):", RULES),
    Broken("a cost of zero is not known", "collect/gather.py", "if cost == 0 and (attempt.took_steps or any(counts)):", "if False:", RULES),
    Broken("a cost of the source stays", "collect/gather.py", "if cost is None and self._prices is not None and spends is not None:", "if self._prices is not None and spends is not None:", RULES),
    Broken("a computed cost is marked", "collect/gather.py", 'doubts.append("no_price" if cost is None else "cost_computed")', "pass", RULES),
    Broken("prices are per million", "collect/prices.py", "MILLION = 1_000_000", "MILLION = 1_000", RULES),
    Broken("a count without a price has no cost", "collect/prices.py", "            if count is None or rate is None:\n                return None", "            if count is None or rate is None:\n                continue", RULES),
    Broken("an unmapped value is no arm", "collect/arms.py", "        if value not in self.arms:\n", "        if False:\n", RULES),
    Broken("one configuration per arm", "collect/arms.py", "if known.get(leaf) != leaves.get(leaf) and not self._allowed(leaf):", "if False:", RULES),
    Broken("what may differ", "collect/arms.py", "return any(leaf == key or leaf.startswith(f\"{key}.\") for key in self._may_differ)", "return False", RULES),
    Broken("an arm is named", "collect/gather.py", "if unnamed and arm_key is None:", "if False:", RULES),
    Broken("paths apart", "collect/gather.py", "    _check_apart(places)\n", "", RULES),
    Broken("two programs are told apart", "collect/gather.py", "            if len(first) > 1:\n", "            if False:\n", RULES),
    Broken("one program per folder", "collect/gather.py", "                self._check_unmixed(folder)\n", "", BAD_INPUT),
    Broken("bad inputs stop the collection", "collect/gather.py", "    if problems and not skip_bad:\n", "    if False:\n", FORMATS),
    Broken("records are such that scoring reads them", "collect/gather.py", "        _LINE.decode(line)\n", "        pass\n", BAD_INPUT),
    Broken("repeats by start time", "collect/spool.py", "rows.sort(key=self._by_start)", "pass", RULES),
    Broken("repeats of the source stay", "collect/spool.py", "if renumber or not given:", "if True:", RULES),
    Broken("runs that clash are not skipped", "collect/gather.py", "    if clashes:\n", "    if False:\n", RULES),
    Broken("nothing left is not nothing found", "collect/gather.py", "    if problems and not len(work.spool):\n", "    if False:\n", RULES),
    Broken("two runs of one repeat", "collect/spool.py", "            if earlier != row:\n", "            if False:\n", RULES),
    Broken("all repeats or none", "collect/spool.py", "elif len(given) < len(rows):", "elif False:", RULES),
    Broken("records are sorted", "collect/spool.py", "key=lambda row: (tasks[self._task[row]], arms[self._arm[row]], self._repeat[row]),", "key=lambda row: row,", RULES),
    Broken("set-up failures are infra", "collect/run_folder.py", "    if sidecar.setup_exit_code:\n", "    if False:\n", RULES),
    Broken("set-up failures of the arm are infra", "collect/run_folder.py", "    if sidecar.arm_setup_exit_code:\n", "    if False:\n", RULES),
    Broken("acceptance tells success", "collect/run_folder.py", "passed = sidecar.acceptance_exit_code == 0", "passed = True", RULES),
    Broken("a failed run is no success", "collect/run_folder.py", "success=passed and failure is None,", "success=passed,", FORMATS),
    Broken("success must be known", "collect/run_folder.py", "if failure is None and sidecar.acceptance_exit_code is None:", "if False:", RULES),
    Broken("a killed agent was waited for", "collect/run_folder.py", "duration = max(duration, wall)", "pass", FORMATS),
    Broken("the wall clock is said", "collect/run_folder.py", 'doubts.append("duration_wall_clock")', "pass", FORMATS),
    Broken("a typo in the sidecar is seen", "collect/sidecar.py", "forbid_unknown_fields=True", "forbid_unknown_fields=False", RULES),
    Broken("files stay inside", "collect/folder.py", "if entry.is_symlink() or (rest and os.path.islink(self._path(name))):", "if False:", BAD_INPUT),
    Broken("folders stay inside", "collect/folder.py", "            if entry.is_symlink():\n", "            if False:\n", BAD_INPUT),
    Broken("documents have a limit", "collect/folder.py", "                if size > limit:\n", "                if False:\n", BAD_INPUT),
    Broken("lines have a limit", "collect/folder.py", "LONGEST_LINE = 64 * 2**20", "LONGEST_LINE = 65 * 2**20", BAD_INPUT),
    Broken("folders have a depth", "collect/folder.py", "DEEPEST = 32", "DEEPEST = 64", BAD_INPUT),
    Broken("a collection is renamed into place", "collect/output.py", 'f".{name}.{os.getpid()}.tmp"', "name", COLLECT_CLI),
    Broken("a flip to passed", "drawing.py", "gained=task.gained", "gained=task.lost", DRAWING),
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
    Broken("progress counts all files", "stream.py", "self._done += len(block)", "self._done = len(block)", f"{CLI}::test_progress_counts_the_bytes_of_all_files"),
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
        try:
            code = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", entry.tests],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            # Tests that never end have noticed, too.
            return None
        return None if code == 1 else f"{entry.rule}: broken, and no test noticed"


def main() -> int:
    chosen = [entry for entry in BROKEN if not sys.argv[1:] or entry.tests in sys.argv[1:]]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        unnoticed = [found for found in workers.map(survives, chosen) if found]
    sys.stdout.write("".join(f"{line}\n" for line in unnoticed))
    sys.stdout.write(f"{len(chosen) - len(unnoticed)} of {len(chosen)} broken rules noticed\n")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
