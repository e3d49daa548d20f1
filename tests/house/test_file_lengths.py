"""No Python file is too long to be read in one go, and no function without a reason."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 450
# Of a function; a longer one says why in a comment above it.
MOST_OF_A_FUNCTION, MOST_PARAMETERS = 60, 7


def test_every_python_file_is_short() -> None:
    folders = ("src", "tests", "benchmarks", "examples")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        # What benchmarks leave behind is not ours.
        if not path.is_relative_to(ROOT / "benchmarks" / "out")
    ]
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
    }
    assert {path.split("/")[0] for path in lengths} == set(folders), "every folder was looked into"
    too_long = {path: length for path, length in lengths.items() if length > MOST_LINES}
    assert too_long == {}, "split it by subject"


def test_a_long_function_says_why() -> None:
    unexplained = []
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        written = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            lines = (node.end_lineno or first) - node.lineno + 1
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            names = [name for name in names if name not in ("self", "cls")]
            count = len(names) + len(node.args.kwonlyargs)
            if lines <= MOST_OF_A_FUNCTION and count <= MOST_PARAMETERS:
                continue
            if not written[first - 2].lstrip().startswith("#"):
                unexplained.append(f"{path.name}: {node.name}, {lines} lines, {count} parameters")
    assert unexplained == []
