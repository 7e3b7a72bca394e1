"""The command line: ``harness check``, ``fuzz``, ``replay``, ``report``, ``list``."""

from harness.cli.main import main, run

__all__ = ["main", "run"]
