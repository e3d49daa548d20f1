"""Write a run file of any size: `generate.py RUNS TASKS`; seeded, about 480 bytes a run."""

import random
import sys

ARMS = ("with_skelly", "without_skelly")


def main() -> None:
    runs, tasks = int(sys.argv[1]), int(sys.argv[2])
    draw = random.Random(1)
    # Drawn once and picked from: drawing every figure anew would take longer than scoring.
    seconds = [round(draw.lognormvariate(5, 0.5), 3) for _ in range(50_021)]
    costs = [round(draw.lognormvariate(-1, 0.5), 6) for _ in range(50_023)]
    tokens = [int(draw.lognormvariate(9, 0.6)) for _ in range(50_033)]
    counts = [draw.randint(2, 40) for _ in range(50_047)]
    passes = [("true", "true", "true", "true", "false")[draw.randrange(5)] for _ in range(50_051)]
    write = sys.stdout.write
    n = 0
    for repeat in range(1, runs // tasks // 2 + 1):
        for task in range(tasks):
            for arm in ARMS:
                n += 1
                write(
                    f'{{"task_id": "task-{task:04d}-fix-the-parser", "arm": "{arm}", '
                    f'"repeat": {repeat}, "success": {passes[n % 50_051]}, '
                    f'"duration_seconds": {seconds[n % 50_021]}, '
                    f'"total_cost_usd": {costs[n % 50_023]}, '
                    f'"input_tokens": {tokens[n % 50_033]}, '
                    f'"output_tokens": {tokens[n * 3 % 50_033]}, '
                    f'"cache_read_tokens": {tokens[n * 5 % 50_033] * 7}, '
                    f'"cache_write_tokens": {tokens[n * 7 % 50_033]}, '
                    f'"step_count": {counts[n % 50_047]}, '
                    f'"tool_call_count": {counts[n * 3 % 50_047]}, '
                    f'"acceptance_cmd_count": {counts[n * 5 % 50_047] % 4 + 1}, '
                    f'"agent_exit_code": 0, "acceptance_exit_code": 0, "failure": null, '
                    f'"model": "provider/model-1", "agent": "opencode", '
                    f'"started_at_utc": "2026-11-01T10:00:00Z"}}\n'
                )


if __name__ == "__main__":
    main()
