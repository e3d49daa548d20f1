"""What CI systems read: the comment, the step summary, annotations, JUnit XML, and docs/ci.md."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema
import yaml
from markdown_it import MarkdownIt

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.test_golden import INPUTS
from tests.test_promotion import equal
from twoarm.escape import annotation, annotation_property, visible
from twoarm.evidence.means import tasks_within
from twoarm.render import github
from twoarm.render.summary import stability_word, summarize

DOCUMENT = Path(__file__).parent.parent / "docs" / "ci.md"
SCHEMA = xmlschema.XMLSchema(Path(__file__).parent / "junit.xsd")

HOSTILE = [
    "<script>alert(1)</script>",
    "</details></summary>",
    "--> <!-- twoarm report -->",
    "a|b\n| c |",
    "`tick` ``two``",
    "]]> & \" ' <",
    "::error::owned\r\n::set-output name=x::y",
    "50% off%0A, title=x",
    "@everyone [x](http://example.com)",
    "\x1b[31m\u202e",
]


def suite(
    tasks: int = 6, repeats: int = 5, baseline: dict[str, Any] | None = None, **candidate: Any
) -> list[dict[str, Any]]:
    return [
        run(f"t{task}", arm, repeat, **changed)
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, changed in (("with_skelly", candidate), ("without_skelly", baseline or {}))
    ]


def test_the_comment_starts_with_its_marker_and_folds_the_rest() -> None:
    comment = twoarm("demo", "--format", "github").out
    assert comment.startswith("<!-- twoarm report -->\n\n## ✅ Promote\n")
    first, _, rest = comment.partition("<details>")
    assert len(first.splitlines()) < 30
    for said in ("Promote", "Decision", "Evidence", "success rate", "median tokens", "Next"):
        assert said in first
    assert "### Arms" not in first
    assert "### Arms" in rest
    assert rest.rstrip().endswith("</details>")
    assert comment.count("<!--") == 1


def test_a_comment_that_is_too_long_leaves_out_what_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    analysis = package.score(suite())
    whole = analysis.to_github()
    monkeypatch.setattr(github, "LONGEST", len(whole.encode()) - 1)
    short = analysis.to_github()
    assert "<details>" not in short
    assert "The full report is too long" in short
    assert "`analysis.md`" in short
    monkeypatch.setattr(github, "LONGEST", len(whole.encode()))
    assert analysis.to_github() == whole


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_a_comment(name: str) -> None:
    runs = [run(name, f"{name} new"), run(name, "old"), run(name, "old", 2, failure="infra")]
    runs[2]["failure_reason"] = name
    comment = package.score(runs, candidate=f"{name} new", baseline="old").to_github()
    shown = []
    html = []
    for token in MarkdownIt("commonmark").enable("table").parse(comment):
        if token.type == "html_block":
            html.append(token.content.strip())
        for child in token.children or []:
            assert child.type not in ("link_open", "image", "em_open")
            if child.type == "html_inline":
                assert child.content in ("<sub>", "</sub>")
            if child.type == "code_inline":
                shown.append(child.content)
    assert html == [
        "<!-- twoarm report -->",
        "<details>\n<summary>Full report</summary>",
        "</details>",
    ]
    assert f"prefer {visible(name)} new" in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_leave_their_annotation(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs = [run(name, f"{name} new", success=False), run(name, "old")]
    runs[0][name] = 1
    path.write_bytes(lines(runs))
    roles = [f"--candidate={name} new", "--baseline=old"]
    result = twoarm("score", str(path), "--annotate", "--format", "json", *roles)
    assert result.code == 0
    found = result.err.splitlines()
    assert len(found) >= 3
    for line in found:
        assert re.fullmatch(r"::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]+", line), line
        assert line.isprintable()


@pytest.mark.parametrize(
    ("text", "message", "title"),
    [
        ("plain", "plain", "plain"),
        ("100%", "100%25", "100%25"),
        ("%0A", "%250A", "%250A"),
        ("a: b, c", "a: b, c", "a%3A b%2C c"),
        ("one\r\ntwo", "one\\r\\ntwo", "one\\r\\ntwo"),
    ],
)
def test_annotations_are_escaped_as_the_protocol_needs(text: str, message: str, title: str) -> None:
    assert annotation(text) == message
    assert annotation_property(text) == title


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (suite(), []),
        (suite(success=False), ["error", "warning"]),
        (suite(repeats=4), ["warning"]),
    ],
)
def test_only_a_refused_candidate_is_an_error(
    runs: list[dict[str, Any]], expected: list[str]
) -> None:
    found = [
        line.split(" ")[0].removeprefix("::")
        for line in github.annotations(package.score(runs))
        if "title=twoarm caveat" not in line
    ]
    assert found == expected


def test_a_promotion_with_nothing_alarming_warns_of_nothing() -> None:
    """A warning that is always there is not read."""
    with files("twoarm").joinpath("example.jsonl").open("rb") as stream:
        report = package.score(stream)
    assert (report.promotion.verdict, len(report.caveats) > 2) == ("promote", True)
    found = list(github.annotations(report))
    assert {line.split(" ")[0] for line in found} == {"::notice"}
    assert len(found) == len(report.caveats)


def test_what_is_alarming_warns_beside_a_promotion() -> None:
    runs = [one for repeat in range(1, 6) for one in both(repeat=repeat)]
    report = package.score(runs)
    assert report.promotion.verdict == "promote"
    warned = [line for line in github.annotations(report) if line.startswith("::warning")]
    assert len(warned) == 1
    assert "title=twoarm caveat nothing_differs::" in warned[0]


def test_without_a_promotion_every_caveat_is_a_warning() -> None:
    report = package.score(both())
    assert report.promotion.verdict == "not enough data"
    assert {line.split(" ")[0] for line in github.annotations(report)} == {"::warning"}


def test_no_more_annotations_than_github_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "MOST_ANNOTATIONS", 2)
    found = list(github.annotations(package.score(suite(repeats=4, success=False))))
    assert len(found) == 3
    assert re.fullmatch(r"::notice title=twoarm::\d+ more in the report", found[-1])


@pytest.mark.parametrize(
    ("runs", "outcomes"),
    [
        (suite(), [None, None, None, None]),
        (suite(success=False, duration_seconds=1), ["failure", None, None, None]),
        (suite(repeats=4, duration_seconds=999), [None, "failure", None, "failure"]),
        (suite(input_tokens=None), [None, None, "skipped", "failure"]),
        ([run()], ["skipped", "skipped", "skipped", "failure"]),
    ],
)
def test_junit_has_a_case_per_gate_and_one_for_adequacy(
    runs: list[dict[str, Any]], outcomes: list[str | None]
) -> None:
    text = package.score(runs, generated_at_utc="2026-11-01T00:00:00Z").to_junit()
    SCHEMA.validate(text)
    (found,) = ElementTree.fromstring(text)
    cases = found.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "gate success rate",
        "gate median duration",
        "gate median non-cache tokens",
        "adequacy",
    ]
    seen = [
        next((kind for kind in ("failure", "skipped") if case.find(kind) is not None), None)
        for case in cases
    ]
    assert seen == outcomes
    assert found.get("tests") == "4"
    assert found.get("failures") == str(outcomes.count("failure"))
    assert found.get("skipped") == str(outcomes.count("skipped"))
    for case in cases:
        assert "".join(case.itertext()).strip()


@pytest.mark.parametrize("name", [*HOSTILE, "\0", "漢字", "\ufffe"])
def test_hostile_names_stay_text_in_junit(name: str) -> None:
    runs = [run(name, f"{name} new"), run(name, "old")]
    text = package.score(runs, candidate=f"{name} new", baseline="old").to_junit()
    SCHEMA.validate(text)
    root = ElementTree.fromstring(text)
    values = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert values["candidate"] == f"{visible(name)} new"
    assert values["decision"] == f"prefer {visible(name)} new"


def test_golden_files_of_ci(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    Path("mixed.jsonl").write_bytes(INPUTS["mixed.jsonl"])
    result = twoarm("score", "mixed.jsonl", "--junit", "deep/junit.xml", "--annotate")
    golden("mixed.junit.xml", Path("deep/junit.xml").read_text(encoding="utf-8"))
    golden("mixed.annotations", result.err.partition("\n")[2])
    golden("mixed.github.md", twoarm("score", "mixed.jsonl", "--format", "github").out)
    golden("demo.github.md", twoarm("demo", "--format", "github").out)


def test_out_adds_to_the_step_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert twoarm("demo").code == 0
    assert summary.read_text() == "before\n"
    assert twoarm("demo", "--out", str(tmp_path / "out")).code == 0
    comment = twoarm("demo", "--format", "github").out
    assert summary.read_text(encoding="utf-8") == f"before\n{comment}"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    result = twoarm("demo", "--out", str(tmp_path / "out"))
    assert result.code == 2
    assert f"twoarm: {tmp_path}/none/summary.md: cannot be written: " in result.err


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("here already")
    out = tmp_path / "out"
    result = twoarm("demo", "--out", str(out), "--junit", str(blocked / "junit.xml"))
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"twoarm: {blocked}/junit.xml: cannot be written: ")
    assert list(out.iterdir()) == []


def tool(name: str, path: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A script of the project, run by root on a Debian whose apt-get only writes down its words."""
    for command, text in {
        "id": "echo 0",
        "dirname": f"echo {DOCUMENT.parent.parent / 'tools'}",
        "apt-get": f'echo "$@" >> {path}/asked',
    }.items():
        (path / command).write_text(f"#!/bin/sh\n{text}\n")
        (path / command).chmod(0o755)
    if not (path / "sh").exists():
        (path / "sh").symlink_to("/bin/sh")
    script = DOCUMENT.parent.parent / "tools" / name
    return subprocess.run(
        ["/bin/sh", script],
        env={**environment, "PATH": str(path)},
        capture_output=True,
        check=False,
    )


def test_a_machine_without_a_browser_is_told_so_and_ci_fails(tmp_path: Path) -> None:
    for environment, code in (({}, 0), ({"CI": "true"}, 1)):
        result = tool("chromium.sh", tmp_path, **environment)
        assert result.returncode == code
        assert result.stderr.startswith(b"no chromium: the tests of the page are skipped")
        assert b"tools/install-chromium.sh" in result.stderr
        assert not (tmp_path / "asked").exists(), "nothing is installed unasked"
    assert tool("chromium.sh", tmp_path, CI="true", CHROMIUM="/somewhere").stderr == b""


def test_a_browser_is_installed_when_asked_for_and_only_if_there_is_none(tmp_path: Path) -> None:
    assert tool("install-chromium.sh", tmp_path, CHROMIUM="/somewhere").returncode == 0
    assert not (tmp_path / "asked").exists()
    assert tool("install-chromium.sh", tmp_path).returncode == 0
    asked = (tmp_path / "asked").read_text()
    assert asked == "install -y --no-install-recommends chromium\n"


def test_the_margin_rule_is_in_the_summary() -> None:
    summary = summarize(package.score(spread(25, 5, 0.5), promote_by="margin"))
    assert summary.promote.startswith(
        "yes, by the margin rule: within the margins everywhere, and better somewhere (success: "
    )


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (1.0, "stable"),
        (0.95, "stable"),
        (0.949, "fairly stable"),
        (0.80, "fairly stable"),
        (0.799, "could easily change"),
    ],
)
def test_stability_in_words(share: float, word: str) -> None:
    assert stability_word(share) == word


def spread(tasks: int, repeats: int, factor: float) -> list[dict[str, Any]]:
    """Runs that differ between tasks, and a little between repeats."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=(100 + 20 * task) * times + (repeat * 3 + task) % 7,
            input_tokens=round((1000 + 200 * task) * times) + (repeat * 5 + task) % 11,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, times in (("with_skelly", factor), ("without_skelly", 1.0))
    ]


def jitter(tasks: int, repeats: int, shifts: tuple[int, int]) -> list[dict[str, Any]]:
    """Arms that differ by noise alone; the one that is shifted has medians a hair higher."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=100 + 10 * task + (repeat * 7 + task * 5 + shift) % 13 - shift / 99,
            input_tokens=1000 + 50 * task + (repeat * 11 + task * 3 + 5 * shift) % 17 - shift,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, shift in zip(("with_skelly", "without_skelly"), shifts, strict=True)
    ]


@pytest.mark.parametrize(
    ("runs", "steps"),
    [
        (spread(8, 5, 0.5), ["promote `with_skelly`: the gates and the evidence agree"]),
        (
            spread(8, 4, 0.5),
            [
                "run more repeats: a promotion needs at least 5 of every task in both arms (16 "
                "task-arms below that)"
            ],
        ),
        (
            [run()],
            ["run `without_skelly` on the same tasks: no run of it counts so far"],
        ),
        (
            suite(),
            [
                "do not claim a difference: the three gates are tied, and a tie counts as holding",
            ],
        ),
        (
            suite(tasks=1, duration_seconds=99),
            [
                "get more runs before telling anyone: the evidence does not show a gain",
                "add tasks: with 1 task nothing can be said about others; it takes at least 6",
            ],
        ),
        (
            suite(tasks=7, baseline={"success": False}, input_tokens=999),
            ["promote `with_skelly`: the gates and the evidence agree"],
        ),
        (
            jitter(8, 5, (0, 1)),
            [
                "get more runs before telling anyone: the evidence does not show a gain",
                "add repeats: ",
                "look at `t4` and 3 more: dropping any one of them changes the decision",
            ],
        ),
        (
            jitter(8, 5, (1, 0)),
            [
                "do not read too much into a mixed result: the evidence shows no clear difference",
                "add repeats: ",
            ],
        ),
        (
            suite(success=False, duration_seconds=1),
            [
                "look at `t0`, `t1`, `t2` and 3 more before anything else: the candidate breaks",
            ],
        ),
        (
            suite(success=False, duration_seconds=101, input_tokens=1001),
            ["keep `without_skelly`"],
        ),
        (
            [*spread(8, 5, 0.5), *(run("t0", repeat=r, failure="infra") for r in range(6, 40))],
            ["find out why runs were excluded", "promote `with_skelly`"],
        ),
    ],
)
def test_what_to_do_next(runs: list[dict[str, Any]], steps: list[str]) -> None:
    found = summarize(package.score(runs)).steps
    assert len(found) == len(steps), found
    assert [step[: len(start)] for step, start in zip(found, steps, strict=True)] == steps


def dear(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The candidate costs more; how much more varies a little."""
    return [
        one | {"total_cost_usd": 1.0 + (one["arm"] == "with_skelly") * (0.5 + one["repeat"] / 50)}
        for one in runs
    ]


def breaking(runs: list[dict[str, Any]], *tasks: str) -> list[dict[str, Any]]:
    return [
        one | {"success": one["arm"] != "with_skelly" or one["task_id"] not in tasks}
        for one in runs
    ]


# Runs, options, and what to do next.
NEXT: list[tuple[list[dict[str, Any]], dict[str, Any], list[str]]] = [
    (spread(12, 5, 0.5), {"promote_by": "evidence"}, []),
    (
        dear(spread(12, 5, 0.5)),
        {"promote_by": "evidence"},
        ["decide whether the gain is worth it: cost is clearly higher", "note that all three"],
    ),
    # The gates say yes, and look at neither cost nor broken tasks.
    (
        dear(spread(12, 5, 0.5)),
        {},
        ["decide whether the gain is worth it: cost is clearly higher"],
    ),
    (
        breaking(spread(25, 10, 0.5), "t7"),
        {"promote_by": "evidence"},
        [
            "look at `t7` before anything else: the candidate breaks it",
            "look at `t7`: dropping it changes the decision",
        ],
    ),
    (
        breaking(spread(25, 10, 0.5), "t7", "t9"),
        {"promote_by": "gates"},
        ["look at `t7`, `t9` before anything else: the candidate breaks them"],
    ),
    (
        spread(12, 5, 0.5),
        {"promote_by": "margin"},
        [
            "add tasks: to rule out a drop of 10 points for tasks like these takes at least 24, "
            "even if nothing fails"
        ],
    ),
    (
        spread(12, 5, 0.5),
        {"promote_by": "margin", "margin_success": 0.2},
        [],
    ),
    (
        equal(30, 5),
        {"promote_by": "margin"},
        [
            "treat the arms as equal: they differ by less than the margins, if at all",
            "note that all three gates hold",
        ],
    ),
    (
        jitter(8, 5, (0, 1)),
        {"promote_by": "evidence"},
        [
            "do not claim a difference, nor that there is none: the runs show neither",
            "note that all three gates hold",
            "add repeats: ",
            "look at `t4` and 3 more",
        ],
    ),
    (
        spread(3, 6, 0.5),
        {"promote_by": "evidence"},
        ["add tasks: with 3 tasks nothing can be", "to see a 10% change in duration"],
    ),
    (
        [
            one
            | {
                "success": one["arm"] != "with_skelly"
                or one["repeat"] > 1
                or int(one["task_id"][1:]) > 3
            }
            for one in spread(12, 5, 0.5)
        ],
        {"promote_by": "evidence"},
        ["add repeats: they narrow the range of success on these tasks"],
    ),
]


@pytest.mark.parametrize(("runs", "options", "steps"), NEXT)
def test_what_to_do_next_goes_by_what_the_promotion_goes_by(
    runs: list[dict[str, Any]], options: dict[str, Any], steps: list[str]
) -> None:
    found = summarize(package.score(runs, **options)).steps
    assert len(found) == len(steps), found
    assert [step[: len(start)] for step, start in zip(found, steps, strict=True)] == steps


@pytest.mark.parametrize(("margin", "tasks"), [(0.10, 24), (0.20, 12), (0.39, 7), (0.5, 6)])
def test_how_many_tasks_a_margin_of_success_takes(margin: float, tasks: int) -> None:
    """The interval of success over tasks, all of which are unchanged."""
    assert tasks_within(margin, 0.95) == tasks
    for count in {tasks, max(6, tasks - 1)}:
        found = package.score(spread(count, 5, 0.5)).evidence
        assert found is not None
        interval = found.deltas["success"].mean.tasks_like_these
        assert interval is not None
        assert (interval.high < margin) == (count >= tasks)


def test_without_evidence_the_summary_says_so() -> None:
    summary = summarize(package.score(suite(duration_seconds=99), evidence=False))
    assert summary.evidence == "not weighed (--no-evidence)"
    assert summary.stability == "not known (--no-evidence)"
    assert summary.steps == ()
    assert summary.scope == ""
    assert summary.change == "change", "of the two figures beside it, and of no pairs"
    assert {amount.interval for amount in summary.amounts} == {"-"}


def workflows() -> list[dict[str, Any]]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, flags=re.S)]


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            **environment,
        },
        capture_output=True,
        check=False,
    )


def test_the_github_workflow_of_the_document_does_what_it_says(tmp_path: Path) -> None:
    steps = {
        step["name"]: step for step in workflows()[0]["jobs"]["score"]["steps"] if "name" in step
    }
    (tmp_path / "collected.jsonl").write_text(twoarm("demo", "--runs").out, encoding="utf-8")
    summary = tmp_path / "summary.md"
    score = steps["Score the runs"]["run"]
    result = shell(score, tmp_path, GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 0, result.stderr.decode()
    assert sorted(os.listdir(tmp_path / "results")) == [
        "analysis.json",
        "analysis.md",
        "comment.md",
        "junit.xml",
        "report.html",
    ]
    assert b"::notice title=twoarm caveat" in result.stderr
    comment = (tmp_path / "results" / "comment.md").read_text(encoding="utf-8")
    assert comment == summary.read_text(encoding="utf-8")

    # A stand-in for GitHub's client: says which comment is there, and keeps what it was asked.
    client = tmp_path / "gh"
    client.write_text(
        '#!/bin/sh\necho "$@" >> asked\ncase "$*" in *--jq*) cat comments 2>/dev/null;; esac\n'
    )
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    names = {"REPOSITORY": "some/where", "NUMBER": "7", "GH_TOKEN": "none"}
    assert set(names) == set(steps["Comment on the pull request"]["env"])
    step = steps["Comment on the pull request"]["run"]
    assert shell(step, tmp_path, **names).returncode == 0
    (tmp_path / "comments").write_text("42\n43\n")
    assert shell(step, tmp_path, **names).returncode == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line for line in asked if "--method" in line] == [
        "api --method POST repos/some/where/issues/7/comments -F body=@results/comment.md",
        "api --method PATCH repos/some/where/issues/comments/42 -F body=@results/comment.md",
    ]
    assert github.MARKER in step


def test_the_gitlab_job_of_the_document_does_what_it_says(tmp_path: Path) -> None:
    job = workflows()[1]["twoarm"]
    (tmp_path / "collected.jsonl").write_bytes(lines([*both(), *both("t", 2)]))
    result = shell(job["script"][1], tmp_path)
    assert result.returncode in job["allow_failure"]["exit_codes"]
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).is_file()
