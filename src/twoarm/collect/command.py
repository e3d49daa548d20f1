"""Any command: run folders with `run.json`, and the counts that the program left, if it did."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from twoarm.collect.folder import Folder
from twoarm.collect.format import Attempt, Failed, Settings
from twoarm.collect.run_folder import AgentOutput, finish
from twoarm.collect.sidecar import NAME, read_sidecar
from twoarm.collect.tokens import Cost, Count, Spend
from twoarm.errors import Problem

USAGE = "usage.json"


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program tells of its own run; a key that is not there was not measured."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cost_usd: Cost | None = None
    step_count: Count | None = None
    tool_call_count: Count | None = None
    model: str | None = None
    version: str | None = None
    failure: Failed | None = None


_USAGE = msgspec.json.Decoder(Usage)


class Command:
    """Run folders of any command."""

    name: ClassVar[str] = "command"
    one_run_per_folder: ClassVar[bool] = True

    def recognizes(self, folder: Folder) -> bool:
        """Never: every run folder has a sidecar, whatever program it is of."""
        return False

    def claims(self, folder: Folder) -> Sequence[str]:
        """A folder with a sidecar."""
        return (NAME,) if NAME in folder else ()

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The run of one folder."""
        sidecar = read_sidecar(folder, name)
        used = folder.decode(USAGE, _USAGE) if USAGE in folder else None
        yield finish(folder, sidecar, _parse_output(used))


def _parse_output(used: Usage | None) -> AgentOutput:
    known = used or Usage()
    counts = (
        known.input_tokens,
        known.output_tokens,
        known.cache_read_tokens,
        known.cache_write_tokens,
    )
    counted = any(count is not None for count in counts)
    spend = Spend(
        model=known.model,
        input=counts[0],
        output=counts[1],
        cache_read=counts[2],
        cache_write=counts[3],
    )
    return AgentOutput(
        name=NAME if used is None else USAGE,
        agent="command",
        failure=known.failure,
        duration_seconds=None,
        first_event=None,
        last_event=None,
        waiting=None,
        cut=False,
        cost_usd=known.cost_usd,
        spends=(spend,) if counted else None,
        took_steps=False,
        step_count=known.step_count,
        tool_call_count=known.tool_call_count,
        calls=None,
        model=known.model,
        version=known.version,
        session_id=None,
        caveats=(),
    )
