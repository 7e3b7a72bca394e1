"""Kernels that the harness must catch, and kernels that it must pass; ``python -m tests.quality`` prints the table."""
