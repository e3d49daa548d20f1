"""What a run of mini-swe-agent did, from its trajectory."""

from collections.abc import Iterator

from twoarm.programs.event import Event, document, text_of
from twoarm.programs.folder import Folder
from twoarm.programs.mini_swe_agent import record


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The messages of the trajectory."""
    for message in document(folder, name, record.TRAJECTORY).messages:
        extra, text, at = message.extra, text_of(message.content), message.extra.timestamp
        if message.role == "user":
            yield Event(kind="prompt", text=text, at=at)
        elif message.role == "assistant":
            yield Event(kind="message", text=text, at=at)
            for action in extra.actions or ():
                asked = action.command or ""
                yield Event(
                    kind="call", id=action.tool_call_id, tool=record.TOOL, text=asked, at=at
                )
        elif message.role == "tool":
            failed = None if extra.returncode is None else extra.returncode != 0
            yield Event(kind="result", id=message.tool_call_id, text=text, failed=failed, at=at)
        elif message.role == "exit":
            yield Event(kind="note", text=f"ended: {text_of(extra.exit_status)}", at=at)
        if extra.response is not None and extra.response.usage is not None:
            spend = record.spend_of([extra.response.usage], None, folder.where(name))
            yield Event(kind="spend", spend=spend)
