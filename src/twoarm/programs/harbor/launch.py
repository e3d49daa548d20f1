"""Harbor: `harbor trial start` for each trial; containers, agents and verifiers are its own."""

import os
import signal
from collections.abc import Mapping, Sequence
from typing import ClassVar

from twoarm.programs.agent import Agent, Cost, Launch, Meter, Start
from twoarm.programs.harbor.trial_folder import (
    CONFIG,
    KEPT_TRAJECTORY,
    RESULT,
    TRAJECTORY,
    last_words,
)
from twoarm.programs.installed import Installed
from twoarm.programs.options import options, valued
from twoarm.programs.prices import Prices

# Files of a trial, and the names under which they are kept.
_KEPT = {
    RESULT: RESULT,
    CONFIG: CONFIG,
    TRAJECTORY: KEPT_TRAJECTORY,
    "trial.log": "trial.log",
    "exception.txt": "exception.txt",
    "verifier/test-stdout.txt": "verifier.log",
}
_TRIALS = "trials"
# From SIGINT until it has removed its containers.
_GRACE_SECONDS = 10.0


class HarborAgent(Installed):
    """One trial of one task."""

    name: ClassVar[str] = "harbor"
    oldest: ClassVar[str | None] = "0.24.0"
    executable = "harbor"
    overshoot = 0.0
    quiet: ClassVar[Mapping[str, str]] = {"HARBOR_TELEMETRY": "0"}
    why_not_nested = (
        "starts containers of its own, which nothing inside another sandbox may; leave it at copy"
    )

    @property
    def nests(self) -> bool:
        """It talks to an engine of containers."""
        return False

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """In its result, when the trial is over."""
        return "told"

    def launch(self, start: Start) -> Launch:
        """A trial by the name of the attempt, which its containers have as well."""
        folder = os.path.join(start.home, _TRIALS)
        return Launch(
            argv=(
                *("harbor", "trial", "start", "--path", start.task_folder),
                *("--trial-name", start.trial, "--trials-dir", folder),
                *options(start.args, valued("--model", start.model)),
            ),
            output="harbor.log",
            env=dict(self.quiet),
            keep={f"{_TRIALS}/{start.trial}/{path}": name for path, name in _KEPT.items()},
            stop_signal=signal.SIGINT,
            least_grace_seconds=_GRACE_SECONDS,
            engines=("docker", "podman"),
        )

    def checking(self, argv: Sequence[str]) -> tuple[str, ...]:
        """It reads all options before it heeds the one for help."""
        return (*argv, "--help")

    def complaint(self, printed: str) -> str:
        """Its last words."""
        return last_words(printed)

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """Nothing is known before the end."""
        return None


launch: type[Agent] = HarborAgent
