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
    parts: tuple[str, ...]
    delta: str
    better: Better = Better.LOWER
    median: str | None = None
    judged: bool = True
    spread: bool = False
    words: tuple[str, str] | None = None

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
    words=("higher success", "lower success"),
)
COST = Metric(
    name="cost_usd",
    label="cost",
    unit="usd",
    parts=("total_cost_usd",),
    delta="cost_delta_usd",
    median="median_cost_usd",
    spread=True,
    words=("cheaper", "more expensive"),
)
DURATION = Metric(
    name="duration_seconds",
    label="duration",
    unit="seconds",
    parts=("duration_seconds",),
    delta="duration_delta_seconds",
    median="median_duration_seconds",
    spread=True,
    words=("faster", "slower"),
)
TOKENS = Metric(
    name="tokens",
    label="total tokens",
    unit="tokens",
    parts=("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    delta="token_delta",
    median="median_total_tokens",
    words=("fewer total tokens", "more total tokens"),
)
NON_CACHE_TOKENS = Metric(
    name="non_cache_tokens",
    label="non-cache tokens",
    unit="tokens",
    parts=("input_tokens", "output_tokens"),
    delta="non_cache_token_delta",
    median="median_non_cache_tokens",
    spread=True,
    words=("fewer tokens", "more tokens"),
)
# In records that have it; no gate looks at it.
SCORE = Metric(
    name="score",
    label="score",
    unit="points",
    better=Better.HIGHER,
    parts=("score",),
    delta="score_delta",
    words=("higher score", "lower score"),
)


def _diagnostic(name: str, label: str, unit: str) -> Metric:
    """A count that is shown beside the others, better neither way."""
    return Metric(
        name=name,
        label=label,
        unit=unit,
        better=Better.NEITHER,
        parts=(name,),
        delta=f"{name.removesuffix('s')}_delta",
        median=f"median_{name}",
        judged=False,
    )


CACHE_READ_TOKENS = _diagnostic("cache_read_tokens", "cache reads", "tokens")
CACHE_WRITE_TOKENS = _diagnostic("cache_write_tokens", "cache writes", "tokens")
STEP_COUNT = _diagnostic("step_count", "steps", "count")
TOOL_CALL_COUNT = _diagnostic("tool_call_count", "tool calls", "count")
ACCEPTANCE_CMD_COUNT = _diagnostic("acceptance_cmd_count", "acceptance commands", "count")

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
BY_NAME = {metric.name: metric for metric in (*METRICS, SCORE)}
LABELS = {name: metric.label for name, metric in BY_NAME.items()}
DIAGNOSTICS = tuple(metric for metric in METRICS if metric.better is Better.NEITHER)
