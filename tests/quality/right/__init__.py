"""Right kernels, in as many styles as there are. A new one is one function under ``@right``."""
