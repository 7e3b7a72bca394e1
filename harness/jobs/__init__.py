"""Work handed to a process of its own, since a kernel under test may take its process down."""

from harness.jobs.judging import Budget, judge, judge_case, plan
from harness.jobs.runner import Died, InternalError, Local, Runner
from harness.jobs.supervisor import Supervised

__all__ = ["Budget", "Died", "InternalError", "Local", "Runner", "Supervised", "judge", "judge_case", "plan"]
