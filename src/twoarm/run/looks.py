"""Looks that may end a run: taken once each, with every trial before them settled.

What a look says is kept nowhere unless it ends the run. A look that did not is never taken again:
the trials before it stay as they are, also those that were given up, because the next look builds
on the runs that this one has seen.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from twoarm.errors import InputError
from twoarm.run.ledger import RunFolder
from twoarm.run.schedule import Frozen, Trial
from twoarm.runs.study import STOPPED_FOR, StopReason
from twoarm.text.escape import counted, named, series, visible

LOOKS = "looks.json"


class EarlyEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The look that a run ended at, and why, by candidate."""

    after: int
    because: dict[str, StopReason]


class LooksTaken(msgspec.Struct, frozen=True, kw_only=True):
    """`looks.json`: the looks that did not end the run early, and the one that did."""

    taken: tuple[int, ...] = ()
    ended: EarlyEnd | None = None

    def closes(self, trial: Trial) -> bool:
        """Whether this trial stays what it is, run or not: a look has counted on it."""
        return self.ended is not None or trial.repeat <= max(self.taken, default=0)


# Why each candidate needs no more repeats; None where one of them does.
Judge = Callable[[int], Mapping[str, StopReason] | None]

_TAKEN = msgspec.json.Decoder(LooksTaken)


def looks_taken(folder: RunFolder) -> LooksTaken:
    """What was looked at so far."""
    if folder.folder.look(LOOKS) is None:
        return LooksTaken()
    try:
        return _TAKEN.decode(folder.folder.read(LOOKS))
    except ValueError as error:
        raise InputError(f"{visible(folder.at(LOOKS))}: {visible(str(error))}") from error


def remember(folder: RunFolder, looks: LooksTaken) -> None:
    """Write it down; it is on the disk when this returns."""
    folder.folder.write(LOOKS, msgspec.json.encode(looks) + b"\n")


class LookTaker:
    """Holds trials back until the look before them is taken."""

    def __init__(self, folder: RunFolder, looks: tuple[int, ...], judge: Judge) -> None:
        self._folder = folder
        self._judge = judge
        self._taken = looks_taken(folder) if looks else LooksTaken()
        self._ahead = [look for look in looks if look not in self._taken.taken]
        self.ended: EarlyEnd | None = None

    def is_closed(self, trial: Trial) -> bool:
        """Whether this trial stays what it is."""
        return self._taken.closes(trial)

    def holds_back(self, trial: Trial) -> bool:
        """Whether a look comes before this trial."""
        return bool(self._ahead) and trial.repeat > self._ahead[0]

    def take(self) -> bool:
        """Take the next look; whether it ends the run."""
        after = self._ahead.pop(0)
        because = self._judge(after)
        self._folder.say("look", after=after)
        if because is not None:
            self.ended = EarlyEnd(after=after, because=dict(because))
            return True
        taken = (*self._taken.taken, after)
        self._taken = msgspec.structs.replace(self._taken, taken=taken)
        remember(self._folder, self._taken)
        return False


def saved(frozen: Frozen, ended: EarlyEnd) -> int:
    """The trials that did not have to be run."""
    return sum(trial.repeat > ended.after for trial in frozen.trials)


def looks_receipt(frozen: Frozen, looks: LooksTaken) -> dict[str, Any] | None:
    """What the receipt says of them; None if none were planned."""
    if not frozen.looks:
        return None
    ended = looks.ended
    return {
        "planned": frozen.looks,
        "taken": looks.taken if ended is None else (*looks.taken, ended.after),
        "because": None if ended is None else ended.because,
        "saved_runs": 0 if ended is None else saved(frozen, ended),
    }


def early_end_told(frozen: Frozen, ended: EarlyEnd) -> str:
    """Where a run ended, why, and what that saved."""
    words = {arm: STOPPED_FOR[reason] for arm, reason in ended.because.items()}
    alike = len(set(words.values())) == 1
    why = words.values() if alike else (f"{named(arm)}: {word}" for arm, word in words.items())
    return (
        f"stopped after {ended.after} of {counted(frozen.repeats, 'repeat')}: "
        f"{'; '.join(dict.fromkeys(why))}; {saved(frozen, ended):,} of "
        f"{counted(len(frozen.trials), 'run')} saved"
    )


def looks_told(frozen: Frozen, looks: LooksTaken) -> str:
    """Which looks were taken, and not what they said."""
    if looks.ended is not None:
        return early_end_told(frozen, looks.ended)
    planned = series([str(look) for look in frozen.looks or ()])
    if not looks.taken:
        return f"no look taken yet; planned after {planned} repeats"
    taken = series([str(look) for look in looks.taken])
    return f"looks taken after {taken} repeats; planned after {planned}"
