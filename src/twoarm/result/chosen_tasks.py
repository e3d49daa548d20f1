"""What a result on chosen tasks is worth: a reader must not take it for the whole."""

from collections.abc import Iterator

import msgspec

from twoarm.compare.comparison import Comparison
from twoarm.compare.screen import Screening
from twoarm.errors import Caveat
from twoarm.options import Options
from twoarm.result.promote import Promotion
from twoarm.text.escape import counted
from twoarm.text.sentence import Sentence, joined, listed, say

_LATE = (
    ": whoever chooses tasks after seeing results can find a winner, so decide by this only if the "
    "choice came first"
)


def of_chosen_tasks(promotion: Promotion, comparison: Comparison) -> Promotion:
    """The same promotion, whose reasons end with the tasks that it is about."""
    chosen = comparison.screening.chosen_tasks
    if chosen is None:
        return promotion
    where = say("this is about {} of {} alone", f"{chosen.tasks:,}", counted(chosen.of, "task"))
    return msgspec.structs.replace(promotion, reasons=(*promotion.reasons, where))


def chosen_caveats(
    screening: Screening, options: Options, *, verdict: bool = True
) -> Iterator[Caveat]:
    """That tasks were left out, and what that does to a verdict, if there is one."""
    chosen = screening.chosen_tasks
    if chosen is None:
        return
    yield Caveat.say(
        "chosen_tasks",
        "only {} of {}, {}; {} of the others left out{}",
        f"{chosen.tasks:,}",
        counted(chosen.of, "task"),
        choice_said(options.tag, options.task),
        counted(screening.excluded_runs("other task"), "run"),
        _LATE if verdict else "",
    )


def choice_said(tag: tuple[str, ...] | None, task: tuple[str, ...] | None) -> Sentence:
    """How tasks were chosen."""
    ways = (("those tagged {}", tag), ("those named {}", task))
    return joined([say(text, listed(names)) for text, names in ways if names is not None], " and ")
