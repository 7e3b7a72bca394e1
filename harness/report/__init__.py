"""A report over a folder of kernels: verdicts, mutants that must be caught, and pages to read them on."""

from harness.report.campaign import Campaign, Show
from harness.report.model import Report, exit_status, load
from harness.report.pages import NAMES, save

__all__ = ["NAMES", "Campaign", "Report", "Show", "exit_status", "load", "save"]
