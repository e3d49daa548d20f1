"""SWE-bench reports: what an evaluation found of each task, where a trajectory does not know."""

from collections.abc import Mapping

import msgspec

from twoarm.errors import InputError
from twoarm.programs.failure import infra
from twoarm.programs.folder import Folder, SourceError, only_file
from twoarm.programs.format import Failed
from twoarm.programs.version import unsupported
from twoarm.text.escape import named

NEWEST_REPORT = 2

Names = list[str] | None

# Whether each task was solved, or what kept the evaluation from finding out.
TaskOutcomes = Mapping[str, bool | Failed]


class _Report(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The report of a whole run: its tasks by outcome."""

    schema_version: int | None = None
    resolved_ids: Names | msgspec.UnsetType = msgspec.UNSET
    unresolved_ids: Names = None
    empty_patch_ids: Names = None
    ambiguous_failure_ids: Names = None
    incomplete_ids: Names = None
    error_ids: Names = None
    infra_failure_ids: Names = None


class _Task(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The report of a single task, as the log folders hold it."""

    resolved: bool
    infra_failure: bool | None = None
    infra_failure_reason: str | None = None


_REPORT = msgspec.json.Decoder(_Report)
_TASKS = msgspec.json.Decoder(dict[str, _Task])

_OUTCOMES: dict[str, bool | Failed] = {
    "resolved_ids": True,
    "unresolved_ids": False,
    "empty_patch_ids": False,
    "ambiguous_failure_ids": False,
    "incomplete_ids": infra("the evaluation did not finish"),
    "error_ids": infra("the evaluation failed"),
}
_INFRA = infra("infra failure of the evaluation")


def read_report(path: str) -> TaskOutcomes:
    """A SWE-bench report: of a whole run, or of single tasks."""
    folder, name = only_file(path, "a SWE-bench report")
    report = folder.decode(name, _REPORT)
    if report.resolved_ids is msgspec.UNSET:
        return _of_tasks(folder, name)
    version = report.schema_version
    if version is not None and version > NEWEST_REPORT:
        unknown = f"report version {named(str(version))}"
        raise unsupported(folder, name, unknown, f"versions up to {NEWEST_REPORT}")
    return _of_run(folder, name, report)


def _of_run(folder: Folder, name: str, report: _Report) -> TaskOutcomes:
    outcomes: dict[str, bool | Failed] = {}
    listed: dict[str, str] = {}
    for key, outcome in _OUTCOMES.items():
        for task in getattr(report, key) or ():
            if outcomes.setdefault(task, outcome) != outcome:
                raise _contradiction(folder, name, task, listed[task], key)
            listed.setdefault(task, key)
    # It says why a task was not resolved, and such a task is listed there as well.
    for task in report.infra_failure_ids or ():
        if outcomes.get(task) is True:
            raise _contradiction(folder, name, task, listed[task], "infra_failure_ids")
        outcomes[task] = _INFRA
    return outcomes


def _contradiction(folder: Folder, name: str, task: str, first: str, second: str) -> InputError:
    return folder.refuse(
        f"task {named(task)} is in {first} and in {second}; a task has one outcome", name
    )


def _of_tasks(folder: Folder, name: str) -> TaskOutcomes:
    outcomes: dict[str, bool | Failed] = {}
    try:
        tasks = folder.decode(name, _TASKS)
    except SourceError as error:
        text = f"not a SWE-bench report, neither resolved_ids nor tasks: {error.problem.message}"
        raise folder.refuse(text, name) from error
    for task, result in tasks.items():
        if not result.infra_failure:
            outcomes[task] = result.resolved
        elif result.resolved:
            raise folder.refuse(f"task {named(task)} is resolved and an infra failure", name)
        else:
            outcomes[task] = infra(result.infra_failure_reason or _INFRA.reason)
    return outcomes
