"""Triton kernels that the harness checks as its own subjects: one file each, with its claims and its
mutants.

The public function of a file bears the file's name. Files that begin with an underscore are shared
helpers.
"""
