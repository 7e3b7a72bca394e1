"""Searching for what is wrong: checking with a budget, fuzzing for a time, reducing, explaining, replaying."""

from harness.search.bound import explain_bound
from harness.search.check import check, replay
from harness.search.fuzz import fuzz
from harness.search.progress import Progress

__all__ = ["Progress", "check", "explain_bound", "fuzz", "replay"]
