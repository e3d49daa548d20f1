"""What a suite means on this machine: its program, its keys, its schedule and its terms."""

import os
from collections.abc import Iterator, Mapping
from math import log2
from typing import Literal

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import Agent, Cost, load_agent
from twoarm.programs.command.launch import UNREAD
from twoarm.programs.prices import Prices, read_prices
from twoarm.programs.settings import NO_FORMAT
from twoarm.run.beside import names_all
from twoarm.run.budget import Terms, check_terms
from twoarm.run.executor import LOCAL
from twoarm.run.freeze import ProgramFile, choose_tasks, commits_of, freeze
from twoarm.run.harbor_tasks import agent_seconds
from twoarm.run.isolation import (
    ChosenIsolation,
    Isolation,
    choose_isolation,
    frozen_images,
    sealer_of,
    settle_program,
)
from twoarm.run.job_maker import check_arguments, missing_files, model_of
from twoarm.run.parts import sealed
from twoarm.run.schedule import Frozen
from twoarm.run.shard import Shard, refuse_moving, sharded, share_of
from twoarm.run.shown import lies
from twoarm.run.suite_file import CheckedSuite, read_suite
from twoarm.run.tree import is_committed, lies_in, uncommitted
from twoarm.text.escape import counted_tasks, in_toml, named, visible

# A shorter value would be redacted from everything.
SHORTEST_SECRET = 8

# Of every task in each arm, where nobody asks for more or fewer.
REPEATS = 5
# With fewer tasks, looks save next to nothing: docs/statistics.md.
_ENDING = 9

Keep = Literal["none", "failed", "all"]


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for besides the suite; None is what the suite or the folder says."""

    repeats: int | None = None
    seed: int = 1
    jobs: int | None = None
    budget_usd: float | None = None
    trial_usd: float | None = None
    only: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    isolation: Isolation | None = None
    keep: Keep = "none"
    looks: tuple[int, ...] | None = None
    judging: dict[str, str | int | float] = {}
    shard: Shard | None = None
    # As it is given: local, or a cluster.
    executor: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A suite that could be run: what it means on this machine."""

    checked: CheckedSuite
    agent: Agent
    program: ProgramFile
    frozen: Frozen
    # With this shard's share of the budget, if it is one.
    terms: Terms
    # The whole budget.
    budget_usd: float | None
    prices: Mapping[str, Prices] | None
    prices_path: str | None
    secrets: dict[str, str]
    # PATH, LANG and TERM.
    env: dict[str, str]
    jobs: int
    isolation: ChosenIsolation
    shard: Shard | None = None
    executor: str = LOCAL
    # None for as many as there is room for.
    jobs_asked: int | None = None


def set_up(
    path: str, options: RunOptions, environment: Mapping[str, str], earlier: Frozen | None = None
) -> Setting:
    """Read and check everything that can be without running anything of the suite.

    With an earlier schedule its commits are used, whatever has been committed since.
    """
    checked = read_suite(path)
    agent = load_agent(checked.agent)
    limits = checked.suite.limits
    prices_path = None if limits.prices is None else checked.at(limits.prices)
    prices = None if prices_path is None else read_prices(prices_path)
    terms = Terms(
        budget_usd=options.budget_usd or limits.budget_usd,
        trial_usd=options.trial_usd or limits.trial_usd,
        cost=_cost(checked, prices),
        overshoot=agent.overshoot,
    )
    check_terms(terms)
    tasks = choose_tasks(checked, options.only, options.tags)
    check_arguments(checked, agent, tasks)
    chosen = choose_isolation(options.isolation, checked, tasks, agent, earlier)
    isolation, program = settle_program(checked, tasks, agent, chosen)
    commits = commits_of(checked, earlier)
    if options.shard is not None and earlier is None:
        refuse_moving(checked, commits.by_key)
    repeats = options.repeats or REPEATS
    frozen = freeze(checked, program.version, tasks, repeats, options.seed, commits, earlier)
    frozen = sealed(
        msgspec.structs.replace(
            frozen,
            digests=frozen.digests | frozen_images(checked, chosen.images),
            only=options.only,
            tags=options.tags,
            looks=options.looks,
            judging=options.judging,
        )
    )
    values = _secrets(checked, environment)
    _refuse_spelled_out(checked, frozen, values)
    return Setting(
        checked=checked,
        agent=agent,
        program=program,
        frozen=frozen,
        terms=_share(terms, frozen, options.shard),
        budget_usd=terms.budget_usd,
        prices=prices,
        prices_path=prices_path,
        secrets=values,
        env=plain_env(environment),
        jobs=options.jobs or default_jobs(),
        isolation=isolation,
        shard=options.shard,
        executor=options.executor or LOCAL,
        jobs_asked=options.jobs,
    )


def _share(terms: Terms, frozen: Frozen, shard: Shard | None) -> Terms:
    """The terms of a shard: as much of the budget as it has of the trials."""
    if shard is None or terms.budget_usd is None:
        return terms
    own, every = len(sharded(frozen, shard).trials), len(frozen.trials)
    share = share_of(terms.budget_usd, frozen, shard)
    if terms.trial_usd is not None and own and share < terms.trial_usd:
        raise UsageError(
            f"{shard} has {own} of {every} trials and so ${share:.2f} of the budget, and a trial "
            "may cost more than that; raise the budget, or use fewer shards"
        )
    return msgspec.structs.replace(terms, budget_usd=share)


def plain_env(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that every program starts with: PATH, LANG and TERM."""
    kept = {key: environment[key] for key in ("PATH", "LANG", "LC_ALL") if key in environment}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", **kept}


def _cost(checked: CheckedSuite, prices: Mapping[str, Prices] | None) -> Cost:
    """How well the cost of any trial is known: the arms may have models of their own."""
    models = {model_of(checked, arm) for arm in checked.arms}
    programs = (msgspec.structs.replace(checked.agent, model=model) for model in models)
    known = {load_agent(program).cost(prices) for program in programs}
    worst: tuple[Cost, ...] = ("unknown", "told", "held")
    return next(cost for cost in worst if cost in known)


def _secrets(checked: CheckedSuite, environment: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for name in checked.agent.secrets:
        value = environment.get(name)
        if not value:
            raise InputError(f"secret {named(name)} is not set; export it before you run")
        if len(value) < SHORTEST_SECRET:
            raise InputError(
                f"secret {named(name)} has fewer than {SHORTEST_SECRET} characters; "
                "a value that short cannot be redacted safely"
            )
        values[name] = value
    return values


def _refuse_spelled_out(checked: CheckedSuite, frozen: Frozen, secrets: Mapping[str, str]) -> None:
    """Refuse a suite that has the value of a secret in it."""
    text = msgspec.json.encode(frozen).decode()
    for name, value in secrets.items():
        if value in text:
            raise InputError(
                f"{visible(checked.path)}: the value of the secret {named(name)} is in the suite; "
                "name the variable and leave the value out"
            )


def default_jobs() -> int:
    """Half the cores, a gigabyte each, at most four."""
    cores = (os.cpu_count() or 2) // 2
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    except (ValueError, OSError):
        memory = 4
    return max(1, min(cores, memory, 4))


def _on_looks(frozen: Frozen) -> Iterator[str]:
    """What planned looks cannot do."""
    if not frozen.looks:
        return
    if frozen.looks[-1] < REPEATS:
        yield (
            f"a promotion takes {REPEATS} repeats, and the last look is after {frozen.looks[-1]}"
        )
    # Halfway a look spends about the square of its level, of which each candidate has a share.
    enough = _ENDING + round(2.0 * log2(len(frozen.candidates)))
    count, families = len(frozen.suite.tasks), frozen.suite.families
    if (families or count) < enough:
        tasks = counted_tasks(count, families)
        yield f"with {tasks} a look hardly ever ends a run: it takes about {enough}"


def notes(setting: Setting) -> Iterator[str]:
    """What has to be said before anything runs."""
    repo = setting.checked.workspace.repo
    if repo is not None and uncommitted(setting.checked.at(repo)):
        commit = setting.frozen.origin[:12]
        yield f"uncommitted changes in {named(repo)} are ignored; trials start from {commit}"
    yield from _readable_suite(setting.checked, setting.frozen.origin)
    yield from _readable_home(setting)
    sealer = sealer_of(setting.checked, setting.isolation, setting.program.path)
    for path in sealer.readable_graders():
        inside = lies(path, setting.checked.shown)
        way = "move it to the folder of the suite"
        if inside:
            way = "keep it out of agent.mounts, of PATH and of what their command line names"
        yield f"agents can read {visible(path)}, which acceptance names; {way}"
    if setting.isolation.name != "copy" and sealer.holds_home:
        yield (
            "your HOME is in the folder of the suite, so acceptance and setup of an arm see only "
            "what their commands name of it; move the suite to a folder of its own"
        )
    if setting.agent.format == UNREAD and setting.checked.agent.format == NO_FORMAT:
        yield 'format = "none" measures no tokens: the gates can only end in `insufficient data`'
    yield from _on_looks(setting.frozen)
    if setting.terms.kind == "soft":
        yield (
            "the budget is soft: nothing stops a trial at its limit, so the last ones may exceed it"
        )
    suite = setting.checked.suite
    if setting.agent.format == UNREAD and any(
        (suite.uptake, *(arm.uptake for arm in suite.arms.values()))
    ):
        yield (
            "uptake cannot be seen: what a command prints is read only with agent.output and "
            "agent.format; see docs/explain.md for what each format shows"
        )
    yield from _short_limits(setting)
    yield from missing_files(setting.checked)
    for key in names_all(setting.checked):
        yield (
            f"{visible(key)} names the whole folder of the suite, which is not frozen: name what "
            "is used as {suite}/PATH, so that a change to it is refused"
        )


def _readable_home(setting: Setting) -> Iterator[str]:
    """That agents can read all that the user has, because a mount says so."""
    home = os.path.realpath(os.path.expanduser("~"))
    for path in setting.checked.agent.mounts if setting.isolation.name != "copy" else ():
        if lies(home, os.path.realpath(setting.checked.at(path))):
            yield (
                f"agents can read your HOME, since agent.mounts names {visible(path)}; name the "
                "folders in it that they need"
            )


def _readable_suite(checked: CheckedSuite, origin: str) -> Iterator[str]:
    """That agents can read the suite where it lies, unless every arm takes its folder away."""
    repo, copied = checked.workspace.repo, checked.workspace.copy
    root = checked.at(repo or copied or ".")
    if repo is not None and is_committed(root, origin, checked.path):
        where = "committed in the repository"
    elif copied is not None and lies_in(checked.path, root):
        where = "in the folder that is copied"
    else:
        return
    path = os.path.relpath(os.path.realpath(checked.path), os.path.realpath(root))
    own = os.path.dirname(path) or path
    if not all(any(_above(at, own) for at in arm.remove) for arm in checked.arms.values()):
        yield (
            f"the suite is {where}, so agents of all arms can read it, and whatever lies beside "
            f"it; keep it elsewhere, or write remove = [{in_toml(own)}] in every arm"
        )


def _above(folder: str, path: str) -> bool:
    folder = os.path.normpath(folder)
    return os.path.commonpath((folder, path)) == folder


def _short_limits(setting: Setting) -> Iterator[str]:
    """Tasks of Harbor whose agents have more time than the trial."""
    for task in setting.frozen.suite.tasks:
        limit = task.timeout_seconds or setting.checked.suite.limits.timeout_seconds
        own = None if task.harbor is None else agent_seconds(setting.checked.at(task.harbor))
        if own is not None and own >= limit:
            yield (
                f"task {named(task.id)}: its task.toml gives the agent {own:g} s, and the whole "
                f"trial ends after {limit:g}; raise limits.timeout_seconds"
            )
