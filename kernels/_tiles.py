"""Tiles of a matrix product: how large they are, and the arguments that all such kernels share."""

SIZES = ("M", "N", "K")
"""Kernel arguments that no load depends on for its alignment: one compilation serves all their values."""


def tile(m: int, n: int, k: int) -> tuple[int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K for a result [m, n]: 16 x 16 while the result is small, else 64 x 64.

    A program takes 32 columns of a at a time, the least that an int8 or fp8 dot takes on sm_90; 128 where a
    small result has a long K.
    """
    if m * n < 512 * 512:
        return 16, 16, 32 if k <= 4096 else 128
    return 64, 64, 32
