"""What any command printed, as it is."""

from collections.abc import Iterator

from twoarm.programs.entry import LONGEST_TEXT, ends_of
from twoarm.programs.event import Event
from twoarm.programs.folder import Folder
from twoarm.programs.run_folder import output_of
from twoarm.programs.sidecar import NAME


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The two ends of its output, or else of the file that the run was read from."""
    output = output_of(folder) or name
    if output == NAME:
        raise folder.refuse("the program left no output")
    text = ends_of(folder, output, LONGEST_TEXT)
    gap = f"\n... {text.left_out:,} characters left out ...\n" if text.left_out else ""
    yield Event(kind="message", text=f"{text.head}{gap}{text.tail}")
