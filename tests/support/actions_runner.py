"""A small runner of GitHub Actions: the steps of a composite action and of a workflow, as theirs.

Expressions, conditions, environment files, outputs and events are as the real one has them, as far
as the action and the example use them; anything else is an error, so that nothing is passed over.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
TOKEN = "ghs_token_that_writes_0123456789"

Context = Mapping[str, Any]
_WORD = re.compile(r"\s*(&&|\|\||==|!=|!|\(|\)|,|'(?:[^']|'')*'|[A-Za-z_][\w.-]*)")


class Expression:
    """`${{ ... }}`, by recursive descent; values are strings and truth."""

    def __init__(self, text: str, context: Context) -> None:
        self._words = [match[1] for match in _WORD.finditer(text)]
        assert "".join(self._words) == re.sub(r"\s", "", text) or "'" in text, text
        self._context = context
        self._at = 0

    def value(self) -> Any:
        found = self._either()
        assert self._at == len(self._words), self._words[self._at :]
        return found

    def _next(self, *words: str) -> bool:
        taken = self._at < len(self._words) and self._words[self._at] in words
        self._at += taken
        return taken

    def _either(self) -> Any:
        found = self._both()
        while self._next("||"):
            other = self._both()
            found = found or other
        return found

    def _both(self) -> Any:
        found = self._equal()
        while self._next("&&"):
            other = self._equal()
            found = found and other
        return found

    def _equal(self) -> Any:
        found = self._one()
        for sign in ("==", "!="):
            if self._next(sign):
                return (found == self._one()) == (sign == "==")
        return found

    def _one(self) -> Any:
        if self._next("!"):
            return not self._one()
        if self._next("("):
            found = self._either()
            assert self._next(")")
            return found
        word = self._words[self._at]
        self._at += 1
        if word.startswith("'"):
            return word[1:-1].replace("''", "'")
        if self._next("("):
            given = []
            while not self._next(")"):
                given.append(self._either())
                self._next(",")
            return self._call(word, given)
        found = self._context
        for part in word.split("."):
            found = found.get(part, "") if isinstance(found, Mapping) else ""
        return found

    def _call(self, name: str, given: list[Any]) -> Any:
        if name == "startsWith":
            return str(given[0]).lower().startswith(str(given[1]).lower())
        assert (name, given) == ("cancelled", []), name
        return False


def filled(text: Any, context: Context) -> str:
    """A text with the value of every expression in it."""
    return re.sub(
        r"\$\{\{(.*?)\}\}", lambda match: str(Expression(match[1], context).value()), str(text)
    )


def holds(condition: str | None, context: Context, *, failed: bool) -> bool:
    """Whether a step runs; without a word about it, only if nothing has failed."""
    if condition is None:
        return not failed
    inner = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", condition.strip())
    told = bool(Expression(inner, context).value())
    return (
        told if re.search(r"(cancelled|always|failure|success)\(\)", inner) else told and not failed
    )


def pairs_of(text: str) -> dict[str, str]:
    """What an environment file says: NAME=VALUE, or NAME<<END, lines, END."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if "<<" in line.partition("=")[0]:
            name, _, end = line.partition("<<")
            found[name] = "\n".join(iter(lambda: next(lines), end))
        elif line:
            name, _, value = line.partition("=")
            found[name] = value
    return found


class Machine:
    """What a job runs on: files that no other job sees."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.temp = folder / "temp"
        self.workspace = folder / "workspace"
        self.files = self.temp / "_runner_file_commands"
        for each in (self.files, self.workspace, folder / "home"):
            each.mkdir(parents=True)
        self.summary = ""
        self.log = ""
        # What a user of bash or Python expects of any machine, and what the runner sets.
        kept = ("PATH", "LANG", "PYTHONPATH", "TWOARM_CACHE", "COVERAGE_PROCESS_START")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env |= {
            "HOME": str(folder / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_WORKSPACE": str(self.workspace),
            **variables,
        }
        self.ran = 0

    def bash(self, script: str, env: Mapping[str, str]) -> tuple[int, dict[str, str]]:
        """One step: its exit code and its outputs; what it adds to the environment stays."""
        self.ran += 1
        files = {
            name: self.files / f"{name.lower()}_{self.ran}"
            for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
        }
        for file in files.values():
            file.touch()
        path = self.temp / f"step{self.ran}.sh"
        path.write_text(script)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(path)],
            cwd=self.workspace,
            env={**self.env, **env, **{name: str(file) for name, file in files.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        self.log += done.stdout
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        self.env |= pairs_of(files["GITHUB_ENV"].read_text())
        for line in files["GITHUB_PATH"].read_text().splitlines():
            self.env["PATH"] = f"{line}:{self.env['PATH']}"
        return done.returncode, pairs_of(files["GITHUB_OUTPUT"].read_text())


Artifacts = dict[str, Path]


class CompositeRun:
    """The action with these inputs on a machine, with twoarm as it is installed here."""

    def __init__(
        self, machine: Machine, twoarm: str, inputs: Mapping[str, str], artifacts: Artifacts
    ) -> None:
        self.machine = machine
        action = yaml.safe_load(ACTION.read_text())
        self.unexpected = sorted(inputs.keys() - action["inputs"].keys())
        github = {"github": {"token": TOKEN}}
        known = {
            name: inputs.get(name, filled(each.get("default", ""), github))
            for name, each in action["inputs"].items()
        }
        # Installing is tried with the package; it takes the network.
        self._steps: dict[str, Any] = {"install": {"outputs": {"twoarm": twoarm}}}
        self._context = {**github, "inputs": known, "steps": self._steps}
        self._artifacts = artifacts
        self.code = 0
        for step in action["runs"]["steps"]:
            if step.get("id") != "install":
                self._run(step)
        self.outputs = {
            name: filled(each["value"], self._context) for name, each in action["outputs"].items()
        }

    def _run(self, step: dict[str, Any]) -> None:
        if not holds(step.get("if"), self._context, failed=bool(self.code)):
            return
        if "uses" in step:
            self._upload({name: filled(text, self._context) for name, text in step["with"].items()})
            return
        assert "${{" not in step["run"], "an expression in a shell line"
        env = {name: filled(text, self._context) for name, text in step["env"].items()}
        env["GITHUB_ACTION_PATH"] = str(ROOT)
        code, outputs = self.machine.bash(step["run"], env)
        self._steps[step.get("id", step["name"])] = {"outputs": outputs}
        self.code = self.code or code

    def _upload(self, given: Mapping[str, str]) -> None:
        """As actions/upload-artifact does: what is there, below the folder they all share.

        A name is taken once, by whichever job of a workflow run comes first.
        """
        if given["name"] in self._artifacts:
            self.machine.log += "(409) Conflict: an artifact with this name already exists\n"
            self.code = self.code or 1
            return
        paths = [Path(line) for line in given["path"].splitlines()]
        kept = self.machine.temp / "artifacts" / given["name"]
        for path in filter(Path.exists, paths):
            copy: Callable[..., Any] = shutil.copytree if path.is_dir() else shutil.copy
            kept.mkdir(parents=True, exist_ok=True)
            copy(path, kept / path.name)
        if kept.exists():
            self._artifacts[given["name"]] = kept


def event_file(machine: Machine, event: Any) -> str:
    """Where the runner has written down what happened."""
    path = machine.temp / "event.json"
    path.write_text(json.dumps(event))
    return str(path)
