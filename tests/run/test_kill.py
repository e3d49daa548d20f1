"""A runner killed at any moment: nothing lost, changed or done twice, and nobody left."""

from pathlib import Path

from tests.support.random_kills import kill_often


def test_a_runner_killed_again_and_again_goes_on(tmp_path: Path) -> None:
    # `make bench-run` does it with 3 seeds x 100 trials and 10 kills each.
    survived = kill_often(tmp_path, seed=1, tasks=4, repeats=3, kills=4)
    assert survived.kills >= 2
    assert survived.left_alive == []
    assert (survived.lost, survived.changed, survived.twice) == (0, [], [])
    assert survived.trials == 24
