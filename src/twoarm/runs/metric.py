"""The table of metrics: every name, unit and direction lives here, once."""

from enum import Enum

import msgspec


class Better(Enum):
    """Which way is better; a diagnostic has no better way, it only explains."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a run: the sum of `parts`, which are keys of the run record.

    A `judged` metric has evidence, and a delta for every task; a `spread` one is shown run by run.
    `words` say that it got better, and that it got worse.
    """

    name: str
    label: str
    unit: str
    better: Better
    parts: tuple[str, ...]
    delta: str
    median: str | None
    judged: bool
    spread: bool
    words: tuple[str, str] | None

    @property
    def short(self) -> str:
        """What it is called where there is little room."""
        return self.label.removeprefix("non-cache ")


SUCCESS = Metric(
    name="success",
    label="success",
    unit="points",
    better=Better.HIGHER,
    parts=("success",),
    delta="pass_delta",
    median=None,
    judged=True,
    spread=False,
    words=("higher success", "lower success"),
)
COST = Metric(
    name="cost_usd",
    label="cost",
    unit="usd",
    better=Better.LOWER,
    parts=("total_cost_usd",),
    delta="cost_delta_usd",
    median="median_cost_usd",
    judged=True,
    spread=True,
    words=("cheaper", "more expensive"),
)
DURATION = Metric(
    name="duration_seconds",
    label="duration",
    unit="seconds",
    better=Better.LOWER,
    parts=("duration_seconds",),
    delta="duration_delta_seconds",
    median="median_duration_seconds",
    judged=True,
    spread=True,
    words=("faster", "slower"),
)
TOKENS = Metric(
    name="tokens",
    label="total tokens",
    unit="tokens",
    better=Better.LOWER,
    parts=("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    delta="token_delta",
    median="median_total_tokens",
    judged=True,
    spread=False,
    words=("fewer total tokens", "more total tokens"),
)
NON_CACHE_TOKENS = Metric(
    name="non_cache_tokens",
    label="non-cache tokens",
    unit="tokens",
    better=Better.LOWER,
    parts=("input_tokens", "output_tokens"),
    delta="non_cache_token_delta",
    median="median_non_cache_tokens",
    judged=True,
    spread=True,
    words=("fewer tokens", "more tokens"),
)
CACHE_READ_TOKENS = Metric(
    name="cache_read_tokens",
    label="cache reads",
    unit="tokens",
    better=Better.NEITHER,
    parts=("cache_read_tokens",),
    delta="cache_read_token_delta",
    median="median_cache_read_tokens",
    judged=False,
    spread=False,
    words=None,
)
CACHE_WRITE_TOKENS = Metric(
    name="cache_write_tokens",
    label="cache writes",
    unit="tokens",
    better=Better.NEITHER,
    parts=("cache_write_tokens",),
    delta="cache_write_token_delta",
    median="median_cache_write_tokens",
    judged=False,
    spread=False,
    words=None,
)
STEP_COUNT = Metric(
    name="step_count",
    label="steps",
    unit="count",
    better=Better.NEITHER,
    parts=("step_count",),
    delta="step_count_delta",
    median="median_step_count",
    judged=False,
    spread=False,
    words=None,
)
TOOL_CALL_COUNT = Metric(
    name="tool_call_count",
    label="tool calls",
    unit="count",
    better=Better.NEITHER,
    parts=("tool_call_count",),
    delta="tool_call_count_delta",
    median="median_tool_call_count",
    judged=False,
    spread=False,
    words=None,
)
ACCEPTANCE_CMD_COUNT = Metric(
    name="acceptance_cmd_count",
    label="acceptance commands",
    unit="count",
    better=Better.NEITHER,
    parts=("acceptance_cmd_count",),
    delta="acceptance_cmd_count_delta",
    median="median_acceptance_cmd_count",
    judged=False,
    spread=False,
    words=None,
)

METRICS = (
    SUCCESS,
    COST,
    DURATION,
    TOKENS,
    NON_CACHE_TOKENS,
    CACHE_READ_TOKENS,
    CACHE_WRITE_TOKENS,
    STEP_COUNT,
    TOOL_CALL_COUNT,
    ACCEPTANCE_CMD_COUNT,
)
JUDGED = tuple(metric for metric in METRICS if metric.judged)
BY_NAME = {metric.name: metric for metric in METRICS}
LABELS = {metric.name: metric.label for metric in METRICS}
DIAGNOSTICS = tuple(metric for metric in METRICS if metric.better is Better.NEITHER)
