"""Any command: run folders with `run.json`, and the counts that the program left, if it did."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from twoarm.errors import Problem
from twoarm.programs.failure import agent, infra
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Format, Settings
from twoarm.programs.run_folder import AgentOutput, finish
from twoarm.programs.sidecar import NAME, read_sidecar
from twoarm.programs.tokens import Count, Quantity, Spend
from twoarm.programs.value import as_text
from twoarm.text.escape import shortened

USAGE = "usage.json"
# The tag of a run whose program left counts of which nobody can read any.
USAGE_UNREAD = "usage_unread"
_UNKNOWN = "usage_key_unknown"
_WRONG = "usage_key_wrong"

_WIDTH = 60

_Failure = Literal["agent", "infra"]


class _Failed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    failure: _Failure
    reason: str = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a program tells of its own run; a key that is not there was not measured.

    The names are those of a record; `cost_usd` is a shorter one for its cost.
    """

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    total_cost_usd: Quantity | None = None
    cost_usd: Quantity | None = None
    step_count: Count | None = None
    tool_call_count: Count | None = None
    model: str | None = None
    version: str | None = None
    session_id: str | None = None
    failure: _Failed | _Failure | None = None
    failure_reason: str | None = None

    @property
    def failed(self) -> Failed | None:
        """Whose failure it was: an object with the reason in it, or two keys."""
        failure = self.failure
        if not isinstance(failure, _Failed):
            reason = self.failure_reason or ""
            failure = None if failure is None else _Failed(failure=failure, reason=reason)
        if failure is None:
            return None
        return infra(failure.reason) if failure.failure == "infra" else agent(failure.reason)


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Usage)}


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read of the counts, and what of them could not, by the code of its caveat."""

    used: Usage
    about: Mapping[str, Sequence[str]]


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
        told = _told(folder.read(USAGE)) if USAGE in folder else None
        yield finish(folder, sidecar, _parse_output(told))


record: type[Format] = Command


def _told(text: bytes) -> _Told:
    """Key by key: a program that miscounts one thing has not failed at its task."""
    try:
        document = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        return _Told(used=Usage(), about={USAGE_UNREAD: [shortened(str(error), _WIDTH)]})
    if not isinstance(document, dict):
        return _Told(used=Usage(), about={USAGE_UNREAD: ["not an object"]})
    known: dict[str, Any] = {}
    wrong = []
    for key in _TYPES.keys() & document.keys():
        value = document[key]
        try:
            # Sums are floats in many languages, even of whole numbers.
            whole = isinstance(value, float) and value.is_integer()
            known[key] = msgspec.convert(int(value) if whole else value, _TYPES[key])
        except ValueError:
            shown = f'"{value}"' if isinstance(value, str) else as_text(value)
            wrong.append(shortened(f"{key} = {shown}", _WIDTH))
    costs = {known[key] for key in ("total_cost_usd", "cost_usd") if known.get(key) is not None}
    if len(costs) > 1:
        both = " and ".join(f"{key} = {known.pop(key)}" for key in ("total_cost_usd", "cost_usd"))
        wrong.append(both)
    unknown = [shortened(key, _WIDTH) for key in sorted(document.keys() - _TYPES.keys())]
    about: dict[str, Sequence[str]] = {_UNKNOWN: unknown, _WRONG: sorted(wrong)}
    if document and not known:
        about = {USAGE_UNREAD: [*unknown, *sorted(wrong)]}
    return _Told(used=Usage(**known), about={code: names for code, names in about.items() if names})


def _parse_output(told: _Told | None) -> AgentOutput:
    known = Usage() if told is None else told.used
    about = {} if told is None else told.about
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
        name=NAME if told is None else USAGE,
        agent="command",
        failure=known.failed,
        duration_seconds=None,
        first_event=None,
        last_event=None,
        waiting=None,
        cut=False,
        cost_usd=known.total_cost_usd if known.total_cost_usd is not None else known.cost_usd,
        spends=(spend,) if counted else None,
        took_steps=False,
        step_count=known.step_count,
        tool_call_count=known.tool_call_count,
        calls=None,
        model=known.model,
        version=known.version,
        session_id=known.session_id,
        caveats=tuple(about),
        about=about,
    )
