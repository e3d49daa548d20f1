"""What the scripted model answers, turn by turn, whatever the agent that asks."""

from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One answer: what it says, the command it asks for, and the tokens that it is said to cost."""

    fresh: int
    cached: int
    output: int
    text: str = ""
    command: str = ""
    # Instead of a command: a tool whose name holds all these words, and what it is asked.
    tool: tuple[str, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    # Of `output`.
    thought: int = 0
    # The answer does not come while the server runs.
    held: bool = False


class Refusal(NamedTuple):
    """An answer that is none, and how the three providers word it."""

    status: int
    openai: tuple[str, str]
    anthropic: tuple[str, str]
    google: tuple[str, str]


WRITE = "printf 'hello world\\n' > hello.txt"
CHECK = "grep -qx 'hello world' hello.txt"
# The agents name the argument of the tool for skills differently, and take no offense at others.
SKILL = (("skill", "noting"), ("name", "noting"))
DONE = Turn(fresh=100, cached=1300, output=20, text="Done.")

SCENARIOS: dict[str, tuple[Turn, ...] | Refusal] = {
    "ok": (
        Turn(fresh=1000, cached=0, output=50, text="I will write the file.", command=WRITE),
        Turn(fresh=200, cached=1000, output=40, thought=10, command=CHECK),
        DONE,
    ),
    "firstfail": (
        Turn(fresh=1000, cached=0, output=50, command=CHECK),
        Turn(fresh=200, cached=1000, output=40, command=WRITE),
        Turn(fresh=150, cached=1200, output=30, command=CHECK),
        DONE,
    ),
    # A tool of an MCP server twice, a skill, and a program on the command line inside a shell.
    "uses": (
        Turn(fresh=1000, cached=0, output=50, tool=("notes", "search"), asked=(("query", "a"),)),
        Turn(fresh=200, cached=1000, output=40, tool=("skill",), asked=SKILL),
        Turn(fresh=200, cached=1000, output=40, command=f"sh -c 'ls | ./skelly map' && {WRITE}"),
        Turn(fresh=200, cached=1000, output=40, tool=("notes", "search"), asked=(("query", "b"),)),
        DONE,
    ),
    # Children that nobody waits for: one in the shell's session, one in a session of its own.
    "leaves": (
        Turn(fresh=1000, cached=0, output=50, command=f"(sleep 301 >/dev/null 2>&1 &) ; {WRITE}"),
        Turn(
            fresh=200,
            cached=1000,
            output=40,
            command="setsid -f sleep 302 >/dev/null 2>&1 </dev/null ; printenv PASSPHRASE",
        ),
        DONE,
    ),
    # Some agents go on without a command that takes too long: then the model hangs, too.
    "hang": (
        Turn(fresh=1000, cached=0, output=50, command=f"{WRITE} ; sleep 303"),
        DONE._replace(held=True),
    ),
    "slow": (Turn(fresh=1000, cached=0, output=50, command=WRITE), DONE._replace(held=True)),
    "http401": Refusal(
        status=401,
        openai=("invalid_api_key", "Incorrect API key provided."),
        anthropic=("authentication_error", "invalid x-api-key"),
        google=("UNAUTHENTICATED", "API key not valid."),
    ),
    "http403": Refusal(
        status=403,
        openai=("model_not_available", "Your account may not use this model."),
        anthropic=("permission_error", "Your account may not use this model."),
        google=("PERMISSION_DENIED", "Your account may not use this model."),
    ),
    "http429": Refusal(
        status=429,
        openai=("rate_limit_exceeded", "Rate limit reached."),
        anthropic=("rate_limit_error", "Rate limit reached."),
        google=("RESOURCE_EXHAUSTED", "Resource has been exhausted."),
    ),
    "context": Refusal(
        status=400,
        openai=("context_length_exceeded", "This model's maximum context length is 1000 tokens."),
        anthropic=("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        google=("INVALID_ARGUMENT", "The input token count exceeds the maximum of 1000."),
    ),
}

# By names that come first in the alphabet, and so second in a run.
SCENARIOS |= {"denied": SCENARIOS["http401"], "forbidden": SCENARIOS["http403"]}

# Asked without tools, the model is to find a title or the like.
ASIDE = Turn(fresh=0, cached=0, output=0, text="{}")


def tokens(scenario: str) -> dict[str, int]:
    """The tokens of a scenario that runs to its end, under the names of the record."""
    turns = SCENARIOS[scenario]
    assert not isinstance(turns, Refusal)
    return {
        "input_tokens": sum(turn.fresh for turn in turns),
        "output_tokens": sum(turn.output for turn in turns),
        "cache_read_tokens": sum(turn.cached for turn in turns),
    }


class Call(NamedTuple):
    """A tool that the model asks for."""

    name: str
    asked: dict[str, str]

    def named(self, arguments: str) -> dict[str, Any]:
        return {"name": self.name, arguments: self.asked}


def call_of(turn: Turn, offered: dict[str, Any], shell: str) -> Call | None:
    """What a turn asks for, of the tools that are offered with their schemas."""
    name, asked = shell, {"command": turn.command, "cmd": turn.command}
    if turn.tool:
        for found, schema in offered.items():
            if all(word in f"{schema.get('space')} {found}".lower() for word in turn.tool):
                name, asked = found, dict(turn.asked)
                break
        else:
            # An agent without such a tool does something else instead.
            asked = {"command": "true", "cmd": "true"}
    elif not turn.command:
        return None
    known = offered.get(name, {}).get("properties", asked)
    asked = {"description": "scripted", **asked}
    return Call(name, {key: value for key, value in asked.items() if key in known})
