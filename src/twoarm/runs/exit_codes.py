"""Exit codes with a meaning of their own in a record.

Standard library only: the supervisor of an attempt reads them, too.
"""

# Of an agent's wrapper, which says: the provider or the sandbox failed, not the agent.
INFRA_EXIT_CODE = 86
# Of an acceptance command that never ran.
NEVER_RAN_EXIT_CODE = 99
NEVER_RAN = "agent exit code not 0 and acceptance never ran"


def never_ran(agent_exit_code: int | None, acceptance_exit_code: int | None) -> bool:
    """Whether the exit codes say that the agent could not even be started: an infra failure."""
    return bool(agent_exit_code) and acceptance_exit_code == NEVER_RAN_EXIT_CODE
