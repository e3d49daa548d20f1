"""What a report advises, in words."""

from twoarm import Analysis


def advised(analysis: Analysis) -> list[str]:
    """The messages of its steps, the most important first."""
    return [str(step.message) for step in analysis.next]
