"""Subject: what was tested, and when, as far as the records and the run folders say."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from twoarm.compare.chosen import asked_for
from twoarm.compare.comparison import Comparison
from twoarm.options import Options
from twoarm.runs.arrays import measured
from twoarm.runs.study import Study
from twoarm.text.sentence import Name, Sentence, Whole, joined, listed, say

# How many suites, agents and models are named, and how much of a commit is shown.
_NAMED = 3
_COMMIT = 12


class SubjectSuite(msgspec.Struct, frozen=True, kw_only=True):
    """The suite of a run folder, as it was when the run began."""

    suite_id: str
    description: str
    agent: str | None
    version: str | None
    # What trials start from; null where that is a folder and not a commit.
    commit: str | None
    # The commits that arms are built from, by arm.
    sources: dict[str, str]
    # When its runs were graded again; null if they were not.
    regraded_at_utc: str | None


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What was run; records alone tell the agents, the models and the times.

    The times are null where no record has one, and without the evidence, which alone needs them.
    """

    suites: tuple[SubjectSuite, ...]
    agents: tuple[str, ...]
    models: tuple[str, ...]
    first_started_at_utc: str | None
    last_started_at_utc: str | None


def find_tested(comparison: Comparison, options: Options) -> Subject:
    """What the lines of the two arms say, and the run folders that they are from."""
    runs = comparison.runs
    compared = np.zeros(len(runs), dtype=bool)
    for arm in comparison.arms.both:
        compared |= runs.arm == (runs.arms.index(arm) if arm in runs.arms else -1)
    compared &= asked_for(runs, options)
    makers = [runs.makers[code] for code in np.flatnonzero(np.bincount(runs.maker[compared]))]
    suites: list[SubjectSuite] = []
    for study in runs.studies:
        if (suite := _suite(study)) not in suites:
            suites.append(suite)
    agents = _distinct([maker.agent for maker in makers]) or _distinct([s.agent for s in suites])
    timed = options.evidence and len(runs.started)
    started = measured(runs.started[compared]) if timed else runs.started[:0]
    return Subject(
        suites=tuple(suites),
        agents=agents,
        models=_distinct([maker.model for maker in makers]),
        first_started_at_utc=_utc(started.min()) if len(started) else None,
        last_started_at_utc=_utc(started.max()) if len(started) else None,
    )


def tested_together(subjects: Sequence[Subject]) -> Subject:
    """What several candidates were tested on, all in one."""
    first = [subject.first_started_at_utc for subject in subjects]
    last = [subject.last_started_at_utc for subject in subjects]
    return Subject(
        suites=subjects[0].suites,
        agents=_distinct([agent for subject in subjects for agent in subject.agents]),
        models=_distinct([model for subject in subjects for model in subject.models]),
        first_started_at_utc=min(filter(None, first), default=None),
        last_started_at_utc=max(filter(None, last), default=None),
    )


def _suite(study: Study) -> SubjectSuite:
    fields = {name: getattr(study, name) for name in SubjectSuite.__struct_fields__}
    return SubjectSuite(**fields)


def _distinct(names: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


def _utc(seconds: float) -> str:
    """A time as records write it; `datetime` cannot tell every time that they may hold."""
    return f"{np.datetime64(int(seconds), 's')}Z"


def tested_said(tested: Subject) -> Sentence | None:
    """What was tested, in one line: the longest comes last, and may be cut; None if unknown."""
    parts = list(_parts(tested))
    return joined(parts, "; ") if parts else None


def _parts(tested: Subject) -> Iterator[Sentence]:
    suites = tested.suites
    if suites:
        ids = list(dict.fromkeys(suite.suite_id for suite in suites))
        yield say("suite {}" if len(ids) == 1 else "suites {}", listed(ids, _NAMED))
    agents = listed([_versioned(agent, suites) for agent in tested.agents], _NAMED)
    models = listed(tested.models, _NAMED)
    if agents and models:
        yield say("{} with {}", agents, models)
    elif agents or models:
        yield agents or models
    commits = dict.fromkeys(suite.commit for suite in suites if suite.commit)
    if commits:
        short = [commit[:_COMMIT] for commit in commits]
        yield say("commit {}" if len(short) == 1 else "commits {}", listed(short, _NAMED))
    for arm, commit in sorted({built for suite in suites for built in suite.sources.items()}):
        yield say("{} at {}", Name(arm), Name(commit[:_COMMIT]))
    first, last = tested.first_started_at_utc, tested.last_started_at_utc
    if first is not None and last is not None:
        days = [time.partition("T")[0] for time in (first, last)]
        yield say("{}", " to ".join(dict.fromkeys(days)))
    for again in dict.fromkeys(s.regraded_at_utc for s in suites if s.regraded_at_utc):
        yield say("graded again {}", again.partition("T")[0])
    for description in dict.fromkeys(suite.description for suite in suites if suite.description):
        # Reports end the sentence themselves.
        yield say("{}", Whole(description.rstrip(". \n")))


def _versioned(agent: str, suites: Sequence[SubjectSuite]) -> str:
    """An agent with the versions that run folders tell of it."""
    versions = [suite.version for suite in suites if suite.agent == agent and suite.version]
    return " ".join([agent, ", ".join(dict.fromkeys(versions))]).rstrip()
