"""The pages under test, by what is special about their runs."""

import json
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from playwright.sync_api import Browser

import twoarm as package
from tests.conftest import both, run, twoarm
from tests.support.browser_pages import Opened, browsed, drawn
from tests.support.planned_runs import missing

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\"' onmouseover=alert(4) x='",
    "{{constructor.constructor('alert(5)')()}}",
    "datum['x'] + 'y'",
    "a.b[c]\\d",
    "<!-- --> ]]> &amp; &lt;",
    "line\nbreak\u2028\u202eend",
    "漢字の課題",
    "x" * 300,
    "x" * 150 + "y" + "x" * 149,
    " ",
]

# What every object of JavaScript has, and words that it takes for values.
PROTOTYPE = [
    *("constructor", "toString", "__proto__", "hasOwnProperty", "valueOf", "prototype"),
    *("__defineGetter__", "isPrototypeOf", "toLocaleString", "propertyIsEnumerable", "length"),
    *("undefined", "null", "NaN", "true", "0", "1e3", "Infinity", "2026-11-01", "task", "rank"),
]


def started(minute: int) -> str:
    return f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00Z"


def hostile() -> list[dict[str, Any]]:
    """Names that would like to be code, in both arms, in a reason and in a key."""
    arms = HOSTILE[0], HOSTILE[1]
    runs = [
        run(
            name,
            arms[arm],
            repeat,
            success=(repeat + arm) % 3 > 0,
            duration_seconds=100 + 7 * repeat + 20 * arm,
            started_at_utc=started(10 * repeat + arm),
        )
        for name in HOSTILE
        for arm in (0, 1)
        for repeat in range(1, 4)
    ]
    runs.append(run("t", arms[0], 9, failure="infra", failure_reason=HOSTILE[2]))
    runs.append(missing("t", arms[1], 9, HOSTILE[3]))
    runs[0][HOSTILE[3]] = HOSTILE[4]
    return runs


def many(tasks: int, repeats: int) -> list[dict[str, Any]]:
    draw = Random(1)
    runs = []
    for task in range(tasks):
        size, ease, help_ = draw.lognormvariate(5, 0.6), draw.random(), draw.gauss(0.1, 0.15)
        for repeat in range(1, repeats + 1):
            for candidate, arm in ((1, "with_skelly"), (0, "without_skelly")):
                long = size * draw.lognormvariate(0, 0.3) * (1 - help_ * candidate)
                runs.append(
                    run(
                        f"task-{task:04}",
                        arm,
                        repeat,
                        success=draw.random() < ease**0.3 + 0.02 * candidate,
                        duration_seconds=round(long, 1),
                        input_tokens=round(long * 60),
                        total_cost_usd=round(long / 900, 6),
                        started_at_utc=started(draw.randrange(1440)),
                    )
                )
    return runs


def unmeasured() -> list[dict[str, Any]]:
    return [
        one
        for repeat in range(1, 6)
        for one in both("t", repeat, total_cost_usd=None, input_tokens=None, cache_read_tokens=None)
    ]


@cache
def page_of(kind: str) -> str:
    """The pages under test, by what is special about them."""
    if kind == "demo":
        return package.score(
            [json.loads(line) for line in twoarm("demo", "--print").out.splitlines()]
        ).to_html()
    if kind == "hostile":
        arms = {"candidate": HOSTILE[0], "baseline": HOSTILE[1]}
        return package.score(hostile(), **arms).to_html()  # type: ignore[arg-type]
    runs = {
        "one pair": both(),
        "one arm": [run()],
        "one task": [one for repeat in range(1, 6) for one in both("only", repeat)],
        "unmeasured": unmeasured(),
        "free": [one for repeat in range(1, 6) for one in both("t", repeat, total_cost_usd=0)],
        "500 tasks": many(500, 10),
        "41 tasks": many(41, 2),
    }
    if kind == "prototype":
        made = [
            run(
                name,
                arm,
                repeat,
                duration_seconds=100 + 7 * repeat + 20 * number * (arm == "constructor"),
                started_at_utc=started(10 * repeat + number),
            )
            for number, name in enumerate(PROTOTYPE)
            for arm in ("constructor", "toString")
            for repeat in range(1, 4)
        ]
        return package.score(made, candidate="constructor", baseline="toString").to_html()
    if kind == "long names":
        return package.score(long_names()).to_html()
    if kind == "no evidence":
        return package.score(many(8, 5), evidence=False).to_html()
    return package.score(runs[kind]).to_html()


KINDS = [
    "demo",
    "hostile",
    "prototype",
    "one pair",
    "one arm",
    "one task",
    "unmeasured",
    "free",
    "no evidence",
    "41 tasks",
    "500 tasks",
]

AREAS = ("authentication", "pagination", "serialization", "migrations", "permissions")

LONG = [
    f"enterprise-monorepo/services/{area}-service/fix-regression-in-{part}-handler-v{number}"
    for number, area in enumerate(AREAS, 1)
    for part in ("request", "response", "background-job")
]


@cache
def long_names() -> list[dict[str, Any]]:
    """15 tasks whose names are long and alike; nearly every run passes."""
    draw = Random(3)
    runs = []
    for task in LONG:
        size, help_ = draw.lognormvariate(5, 0.6), draw.gauss(0.05, 0.15)
        for repeat in range(1, 11):
            for change, arm in (
                (help_, "with_repository_context_and_semantic_search"),
                (0.0, "without_repository_context_and_semantic_search"),
            ):
                long = size * draw.lognormvariate(0, 0.3) * (1 - change)
                runs.append(
                    run(
                        task,
                        arm,
                        repeat,
                        success=draw.random() < 0.99 or repeat > 1,
                        duration_seconds=round(long, 1),
                        input_tokens=round(long * 60),
                        total_cost_usd=round(long / 900, 6),
                    )
                )
    return runs


def opened(
    chromium: Browser, tmp_path: Path, kind: str, **look: Any
) -> AbstractContextManager[Opened]:
    return browsed(chromium, tmp_path, page_of(kind), **look)


_READ: dict[tuple[str, int, str], Opened] = {}


def read(
    chromium: Browser, tmp_path: Path, kind: str, *, width: int = 1280, scheme: str = "light"
) -> AbstractContextManager[Opened]:
    """The page as `opened` has it, drawn once for all tests that only read it."""
    key = (kind, width, scheme)
    if key not in _READ:
        _READ[key] = drawn(chromium, tmp_path, page_of(kind), width=width, scheme=scheme)
    return nullcontext(_READ[key])
