"""Another handler whose module takes a quarter of a gigabyte of addresses, though no memory."""

import mmap
import os

BALLAST = mmap.mmap(-1, 256 * 1024 * 1024)


def where() -> int:
    return os.getpid()
