"""One thread a test process: two workers on two cores, and no spinning on small matrices."""

import os

for library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
