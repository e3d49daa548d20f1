"""A run folder whose runs are to be graded again: what each left, as far as that was kept."""

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.files.safe import OpenFolder
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import RunFolder
from twoarm.run.loop_view import End
from twoarm.run.receipt import RECEIPT
from twoarm.run.tree import file_digest
from twoarm.runs.study import SCHEDULE
from twoarm.text.escape import counted, visible

PATCHES = ("diff.patch", "ignored.patch")


class _ProgramThen(msgspec.Struct, frozen=True):
    sha256: str


class _Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed of a receipt: digests of trees, how the run ended, what ran."""

    digests: dict[str, str]
    end: End
    agent: _ProgramThen


class Graded:
    """The run folder that runs are from; nothing is written to it."""

    def __init__(self, path: str) -> None:
        self.folder = RunFolder(path)
        self.frozen = self.folder.frozen()
        self.machine = self.folder.machine()
        if self.folder.held_by_another():
            raise UsageError(
                f"{visible(path)}: a run is going on there; wait for its end, or --stop it"
            )
        self.runs = {run.trial.id: run for run in self.folder.runs()}
        if not self.runs:
            raise InputError(f"{visible(path)}: there is no run to grade yet")
        self.digest = file_digest(self.folder.at(SCHEDULE))
        self.receipt = self._receipt()

    def _receipt(self) -> _Receipt:
        try:
            return msgspec.json.decode(self.folder.folder.read(RECEIPT), type=_Receipt)
        except FileNotFoundError as error:
            raise InputError(
                f"{visible(self.folder.path)}: no {RECEIPT}, which says what trials started from; "
                f"continue the run with twoarm run --resume {visible(self.folder.path)}"
            ) from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"{visible(self.folder.at(RECEIPT))}: {visible(str(error))}"
            ) from error

    def open_run(self, run: Attempted) -> OpenFolder:
        """The folder of a run, to be closed."""
        return self.folder.folder.within(f"runs/{run.trial.id}")

    def open_attempt(self, attempt: Attempted) -> OpenFolder:
        """The folder of an attempt without a run, to be closed."""
        return self.folder.folder.within(f".attempts/{attempt.id}")

    def why_not(self, run: Attempted) -> str | None:
        """Why what a run left cannot be had again; None if it can."""
        facts = run.facts
        with self.open_run(run) as folder:
            for name, size in facts.get("files", {}).items():
                if folder.size(name) != size:
                    return f"{name} is not as long as it was"
        patch = facts.get("patch")
        if patch is None or PATCHES[0] not in facts.get("files", {}):
            return "what it changed was not kept"
        if "broken" in facts:
            return f"its workspace could not be put right: {facts['broken']}"
        if patch["complete"]:
            return None
        first = patch["left_out"][0]
        more = f" and {counted(patch['left_out_files'] - 1, 'more file')}"
        more = more if patch["left_out_files"] > 1 else ""
        return f"its patch is without {first['path']}{more}: {first['why']}"
