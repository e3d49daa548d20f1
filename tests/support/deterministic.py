"""Hypothesis with the same examples on every run; imported only by the tests that use it."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

settings.register_profile("twoarm", derandomize=True, deadline=None)
settings.load_profile("twoarm")

__all__ = ["HealthCheck", "given", "settings", "st"]
