"""Benchmarks of speed and memory (`make bench`). They are not part of the installed package."""

import os

# As in the command `cucb`, before NumPy is imported: small matrices gain nothing from threads.
for _library in ("MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
