"""Programs under the names of real agents: they print what one printed, and then misbehave."""

from typing import Any, NamedTuple

from tests.support.collect_fixtures import FIXTURES
from tests.support.yard import Yard


class StandIn(NamedTuple):
    """The program that is looked for on PATH, and what a good run of it said."""

    executable: str
    version: str
    said: str
    # A part of the session's name, which differs from run to run.
    session: str


STAND_INS = {
    "codex": StandIn("codex", "codex-cli 0.166.0", "codex/ok/events.jsonl", "529ef82a3137"),
    "opencode": StandIn("opencode", "1.18.33", "opencode/ok/events.jsonl", "kqcytWhwp0Vv"),
    "claude-code": StandIn(
        "claude", "2.1.325 (Claude Code)", "claude-code/real_ok/stream.jsonl", "19f131dcf617"
    ),
    "gemini-cli": StandIn("gemini", "0.61.0", "gemini-cli/ok_stream/stdout.txt", "18accdaa49e8"),
}


def stand_in(yard: Yard, name: str, script: str) -> dict[str, Any]:
    """Put one on PATH, which does what a script says; the `agent` table of its suite.

    In the script `good` prints a whole run, `half` one that ends within a line, `rollout` what
    Codex writes down besides, and `exported` what opencode does.
    """
    found = STAND_INS[name]
    unlike = f"sed s/{found.session}/$$/"
    functions = f"""
good() {{ {unlike} '{FIXTURES / found.said}'; }}
half() {{ good | head -c 330; }}
rollout() {{ {unlike} '{FIXTURES}/codex/ok/rollout.jsonl'; }}
exported() {{ sed "s/ses_e22396cabffeSlkqcytWhwp0Vv/$1/" '{FIXTURES}/opencode/ok/export.json'; }}
sessions="$HOME/.codex/sessions"
if [ "$1" = export ]; then exported "$2"; exit; fi
"""
    yard.stand_in(found.executable, found.version, functions + script)
    return {"program": name, "argv": None}
