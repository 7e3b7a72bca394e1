"""Wrong kernels, one mistake each. A new one is one function under ``@wrong``."""
