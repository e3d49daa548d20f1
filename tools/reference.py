"""Writes docs/reference from the code: commands, files, exit codes, caveats. `make golden` runs it.

python -m tools.reference [--check]
"""

import ast
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.caveat_guide import COLLECT, PLAN, SCORE
from twoarm.commands.cli import _COMMANDS, _GROUPS
from twoarm.commands.exit_codes import HELP, RUN_HELP
from twoarm.commands.schema import _SCHEMAS
from twoarm.errors import NOTES, SERIOUS
from twoarm.programs.caveats import CAVEATS
from twoarm.runs.record import UPTAKE_NOT_SHOWN

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
SOURCES = ROOT / "src" / "twoarm"
# Codes that are put together from parts.
# What begins a sentence in lower case.
NAMES = ("opencode", "usage.json")
COMPOSED = {"several_models", "several_agents", "different_models", "different_agents"}


def cell(text: str) -> str:
    """A text in a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


# Commands.


def commands() -> str:
    parts = ["# Commands", "Every command and its options, as `--help` says it."]
    for title, group in _GROUPS.items():
        listed = [
            (f"[`twoarm {name}`](#twoarm-{name})", cell(short)) for name, short in group.items()
        ]
        parts.append(f"**{title}**\n\n{table(('command', 'what it does'), listed)}")
    parts += [part for name in _COMMANDS for part in command(name)]
    return "\n\n".join(parts) + "\n"


def command(name: str) -> Iterator[str]:
    module: Any = import_module(f"twoarm.commands.{name}")
    parser = ArgumentParser(prog=f"twoarm {name}", add_help=False)
    module.add_options(parser)
    yield f"## twoarm {name}"
    yield " ".join(module.DESCRIPTION.split())
    for group in parser._action_groups:
        rows = [
            (f"`{spelled(action)}`", cell((action.help or "").replace("%%", "%")))
            for action in group._group_actions
        ]
        if rows:
            yield f"**{(group.title or '').capitalize()}**\n\n{table(('option', ''), rows)}"


def spelled(action: Any) -> str:
    """An option with its value, as one would write it."""
    choices = "\\|".join(map(str, action.choices or ()))
    value = "" if action.nargs == 0 else (choices or action.metavar or action.dest.upper())
    if action.option_strings:
        return f"{', '.join(action.option_strings)} {value}".strip()
    return str(action.metavar or choices or action.dest) + ("..." if action.nargs == "+" else "")


# Files.


def files() -> str:
    parts = [
        "# Files",
        "What twoarm reads and writes, key by key; `twoarm schema NAME` prints a JSON Schema.",
    ]
    shown: list[dict[str, Any]] = []
    for name, make in _SCHEMAS.items():
        schema = make()
        parts += [f"## {name}", cell(schema.get("description", "")), keys_of(schema)]
        for title, part in sorted(schema.get("$defs", {}).items()):
            # Several files share parts.
            if "properties" in part and part not in shown:
                shown.append(part)
                parts += [f"### {title}", cell(part.get("description", "")), keys_of(part)]
    return "\n\n".join(filter(None, parts)) + "\n"


def keys_of(schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (
            f"`{key}`",
            cell(kind(part)),
            "yes" if key in required else "",
            cell(part.get("description", "")),
        )
        for key, part in schema.get("properties", {}).items()
    ]
    return table(("key", "type", "required", ""), rows) if rows else ""


def kind(part: dict[str, Any]) -> str:
    """What a value may be, in a few words."""
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(map(kind, part["anyOf"])))
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    told = part.get("type", "anything")
    if told == "array":
        inner = part.get("items") or (part.get("prefixItems") or [{}])[0]
        return f"list of {kind(inner)}" if inner else "list"
    if told == "object" and isinstance(part.get("additionalProperties"), dict):
        return f"table of {kind(part['additionalProperties'])}"
    return " or ".join(told) if isinstance(told, list) else str(told)


# Exit codes.


def exit_codes() -> str:
    rows: dict[str, list[str]] = {}
    for column, text in enumerate((HELP, RUN_HELP)):
        code = ""
        for line in text.splitlines()[1:]:
            first, _, rest = line.strip().partition("  ")
            code, words = (first, rest) if first.isdigit() else (code, line.strip())
            told = rows.setdefault(code, ["", ""])
            told[column] = f"{told[column]}; {words}".removeprefix("; ")
    body = [(code, *map(cell, rows[code])) for code in sorted(rows, key=int)]
    return (
        "# Exit codes\n\n"
        "Data goes to standard output, everything else to standard error. A command that a signal "
        "ends has 128 and the number of the signal as its exit code.\n\n"
        f"{table(('code', 'every command', '`twoarm run` and `regrade`'), body)}\n\n"
        "With `--exit-code`, 0 means promote only if every byte was read and written. "
        "[CI](../ci.md#exit-codes) has examples.\n"
    )


# Caveats.


def codes_in_sources() -> set[str]:
    """Every code that a caveat is made with."""
    codes = set(COMPOSED)
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Caveat.say", "Caveat.of"):
                given = [word.value for word in node.keywords if word.arg == "code"]
                first = (given or node.args)[0]
                if isinstance(first, ast.Constant):
                    codes.add(str(first.value))
    return codes | {UPTAKE_NOT_SHOWN} | set(CAVEATS)


def caveats() -> str:
    listed = {*SCORE, *PLAN, *COLLECT}
    if missing := codes_in_sources() - listed:
        sys.exit(f"tools/caveat_guide.py: nothing is said of {sorted(missing)}")
    if stale := listed - codes_in_sources():
        sys.exit(f"tools/caveat_guide.py: no such code: {sorted(stale)}")
    in_order = sorted(SCORE, key=lambda code: (rank(code), code))
    parts = [
        "# Caveats",
        "A caveat is something to know before you quote a number. It is in every report and in "
        "`analysis.json`, with a code and a severity: `serious` ones should make you stop, and "
        "come first.",
        "## In reports",
        table(
            ("code", "severity", "what it means", "what to do"),
            [(f"`{code}`", severity(code), *map(cell, SCORE[code])) for code in in_order],
        ),
        "## Of `plan` and `calibrate`",
        table(
            ("code", "what it means", "what to do"),
            [(f"`{code}`", *map(cell, PLAN[code])) for code in sorted(PLAN)],
        ),
        "## Of `collect`",
        table(
            ("code", "what it means", "what to do"),
            [(f"`{code}`", cell(meaning(code)), cell(COLLECT[code])) for code in sorted(COLLECT)],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def meaning(code: str) -> str:
    own = {
        "attempted_again": "several attempts at one repeat, all but the last infra failures",
        "format_broken": "a format of another package cannot be loaded",
        "repeats_numbered": "repeats were numbered by start time, not by the source",
        "uptake_all_match": "a pattern of --uptake matches every run, so it tells nothing",
        "uptake_no_match": "a pattern of --uptake matches no run",
    }
    text = CAVEATS.get(code) or own[code]
    # A name is written as it is, at the start of a sentence as well.
    first = text if text.startswith(NAMES) else f"{text[:1].upper()}{text[1:]}"
    return f"{first}."


def severity(code: str) -> str:
    return "serious" if code in SERIOUS else "note" if code in NOTES else "warning"


def rank(code: str) -> int:
    return SERIOUS.index(code) if code in SERIOUS else len(SERIOUS) + (code in NOTES)


PAGES = {"commands": commands, "files": files, "exit-codes": exit_codes, "caveats": caveats}
NOTE = "<!-- Written by tools/reference.py; `make golden` writes it anew. -->\n\n"


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = FOLDER / f"{name}.md", NOTE + make()
        if "--check" in sys.argv[1:]:
            stale += [path.name] if path.read_text(encoding="utf-8") != text else []
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        sys.exit(f"docs/reference: {', '.join(stale)}: not what the code says; make golden")
    return 0


if __name__ == "__main__":
    sys.exit(main())
