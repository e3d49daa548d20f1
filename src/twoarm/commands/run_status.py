"""What `run --status` and `run --stop` do: look at a run folder that may be at work."""

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import typed
from twoarm.run.display import counts_by_arm, money_so_far
from twoarm.run.ledger import STOP, RunFolder
from twoarm.run.looks import looks_taken, looks_told
from twoarm.run.shard import share_of
from twoarm.text.escape import counted, visible


def stop(path: str, streams: Streams) -> int:
    """Ask a run to start nothing new."""
    folder = RunFolder(path)
    folder.frozen()
    if not folder.held_by_another():
        streams.say(f"twoarm: nothing is running in {visible(path)}")
        return DONE
    folder.folder.write(STOP, b"")
    streams.say("twoarm: no new trials start; the run ends when the running ones have finished")
    return DONE


def status(path: str, streams: Streams) -> int:
    """Say where a run stands, in counts and money, and change nothing."""
    folder = RunFolder(path)
    frozen = folder.planned()
    machine = folder.machine()
    runs, attempts = list(folder.runs()), list(folder.attempts())
    at_work = folder.held_by_another()
    done = {run.trial.id for run in runs}
    running = sum(attempt.state == "running" for attempt in attempts) if at_work else 0
    infra = {attempt.trial.id for attempt in attempts if attempt.state == "infra"} - done
    whole = machine.budget_usd
    share = None if whole is None else share_of(whole, folder.frozen(), machine.shard)
    money = money_so_far(runs, attempts, share)
    if machine.shard is not None and whole is not None:
        money += f" (its share of ${whole:.2f})"
    counts = [
        counts_by_arm(frozen, runs),
        f"{running} running",
        f"{len(infra)} infra",
    ]
    which = "" if machine.shard is None else f", {machine.shard}"
    lines = [
        f"{visible(folder.path)}{which}: {'running' if at_work else 'not running'}",
        ", ".join([*counts, money] if money else counts),
    ]
    for part in frozen.parts if len(frozen.parts) > 1 else ():
        made = sum(trial.id in done for trial in part.trials)
        lines.append(f"part {part.number}: {made} of {counted(len(part.trials), 'trial')} done")
    looks = looks_taken(folder)
    left = len(frozen.trials) - len(done | infra)
    if left and not at_work and looks.ended is None:
        lines.append(f"continue with {typed('twoarm', 'run', '--resume', path)}")
    if frozen.looks:
        lines.append(looks_told(frozen, looks))
    streams.write("".join(f"{line}\n" for line in lines))
    return DONE
