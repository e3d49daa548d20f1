"""What a shell would run of a command, and what is text in it."""

import sys

import pytest

from twoarm.programs.script import DEEPEST
from twoarm.programs.shell import commands
from twoarm.programs.uptake import Call, Pattern

RUN = [
    # Shells and what they are given.
    "bash -euo pipefail -c 'skelly map'",
    "bash -ce 'skelly map'",
    "bash -c -e 'skelly map'",
    "bash --rcfile x -c 'skelly map'",
    "bash -c $'skelly map'",
    "bash <<EOF\nskelly map\nEOF",
    "sudo bash -s <<'EOF'\nskelly map\nEOF",
    "bash <<< 'skelly map'",
    # Quotes.
    "echo $'it\\'s' && skelly map",
    'echo "a\\"b"; skelly map',
    "sk\\\nelly map",
    "echo a # it's\nskelly map",
    # Expansions.
    "echo ${x# } ; skelly map",
    'echo "${x:-"a"}"; skelly map',
    "echo ${x:-'}'}; skelly map",
    'echo "${x:-it\'s}"; skelly map',
    'echo "${x:-$(skelly map)}"',
    "echo $((1 << 2))\nskelly map",
    "((x = 1 << 3))\nskelly map",
    "echo $(( 1 + $(skelly map) ))",
    "echo $( (cd x; ls); (skelly map))",
    "((cd x; ls); (skelly map))",
    "files=($(skelly map))",
    "files[1]=x skelly map",
    # Compound commands.
    "function f { skelly map; }; f",
    "f() { skelly map; }; f",
    "case $x in a|b)\n skelly map\n ;;\nesac",
    "case x in a) ls;; esac; skelly map",
    'echo "$(case a in a) ls;; esac; skelly map)"',
    "[[ -n $x && $y < z ]] && skelly map",
    "for ((i=0; i<3; i++)); do skelly map; done",
    "time -p skelly map",
    "coproc skelly map",
    # Redirections.
    "2>/dev/null skelly map",
    "{fd}>x skelly map",
    "3>&- skelly map",
    "cat <<A <<B; skelly map\n1\nA\n2\nB",
    "cat <<EOF\n$(skelly map)\nEOF",
    "cat <<EOF\n`skelly map`\nEOF",
    "git commit -m \"$(cat <<'EOF'\nit's \"fine\nEOF\n)\" && skelly map",
    # Programs that run another one.
    "timeout --kill-after 5 10 skelly map",
    "sudo -Eu bob skelly map",
    "sudo --user bob skelly map",
    "xargs -d'\\n' skelly map",
    "env - A=1 skelly map",
    "env -S 'skelly map'",
    "find . -name '*.py' -exec skelly map {} \\;",
    "command -p skelly map",
]

TEXT = [
    "command -v skelly",
    "if command -v skelly > /dev/null; then ls; fi",
    "case x in a) ls;; skelly) ls;; esac",
    "case x in a|skelly) ls;; esac",
    "case x in\nskelly) ls;;\nesac",
    "case x in a) ls;& skelly) ls;; esac",
    "skelly() { ls; }",
    "skelly () { ls; }",
    "function skelly { ls; }",
    "echo $((skelly + 1))",
    "((skelly = 1))",
    "for ((skelly=0; skelly<3; skelly++)); do :; done",
    "[[ x && skelly ]]",
    "[[ a =~ (skelly) ]]",
    "files=(skelly map)",
    "files=(x\nskelly)",
    "cat <<EOF\n\tEOF\nskelly x\nEOF",
    "cat <<'EOF'\n$(skelly)\nEOF",
    "cat <<EOF\n\\$(skelly)\nEOF",
    "bash script.sh <<EOF\nskelly\nEOF",
    "echo ${x:-(skelly)}",
    "echo $'a\\'; skelly'",
    "echo\u00a0skelly",
    "echo a\u2028skelly map",
    "'if' skelly map",
]


LENGTH = 100_000


def runs_skelly(command: str) -> bool:
    return Pattern("command:skelly *").matches(Call(name="Bash", asked={"command": command}))


@pytest.mark.parametrize("command", RUN)
def test_what_a_shell_would_run_is_a_use(command: str) -> None:
    assert runs_skelly(command)


@pytest.mark.parametrize("command", TEXT)
def test_what_is_text_to_a_shell_is_no_use(command: str) -> None:
    assert not runs_skelly(command)


@pytest.mark.parametrize(
    "piece",
    [
        *("sudo ", "a=1 ", "! ", "env a=1 ", "xargs -n 1 ", "time ", "eval "),
        *("a;", "((", "$((", "${x:-", "a=(", "f() ", "[[ ", "case x in ", "$(case x in "),
        *("bash <<A\n", "<<A ", '"${x:-', "$'", "<(", "`\\`", "function "),
    ],
)
def test_a_long_command_is_read_once(piece: str) -> None:
    """A shell would not take most of these."""
    found = commands(piece * (LENGTH // len(piece)))
    # Each word of a command comes once for every program taken off it.
    assert sum(len(words) for words in found) <= 2 * (DEEPEST + 2) * LENGTH


def test_a_script_inside_scripts_is_read_once() -> None:
    inner = "; ".join(f"skelly {number}" for number in range(1000))
    script = inner
    for _ in range(DEEPEST):
        script = f'eval "$({script})"'
    # Once where it stands, and once for every `eval` around it would be 2 ** DEEPEST times.
    found = [words for words in commands(script) if words[0] == "skelly"]
    assert len(found) <= 1000 * (DEEPEST + 2)


def test_a_deep_command_needs_no_deep_stack() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        for piece in ('"$(', '${x:-"', "$(bash -c '", '`bash -c "$(', '<(eval "${x:-'):
            assert isinstance(list(commands(piece * 2_000)), list)
    finally:
        sys.setrecursionlimit(before)
