"""Resources: the room that a run takes up on a cluster while it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.settings import hint


@dataclass(frozen=True)
class Resources:
    """Processors and GPUs that are kept for a run; no part of what the run is.

    A run has one thread whatever `cpus` is. A part of a GPU is shared with other runs.
    """

    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        for name, value in (("cpus", self.cpus), ("gpus", self.gpus)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UserError(f"{name} takes a number, got {value!r}")
        if not 0 < self.cpus < math.inf:
            raise UserError(
                f"cpus must be more than 0, got {self.cpus}; 0.5 lets two runs share one"
            )
        if not 0 <= self.gpus < math.inf:
            raise UserError(f"gpus must be at least 0, got {self.gpus}")
        if self.gpus > 1 and self.gpus % 1:
            raise UserError(f"gpus must be whole or a part of one, got {self.gpus}")


ONE_CORE = Resources()


def resources_of(table: Any) -> Resources:
    """The resources that a table asks for; what it leaves out is as above."""
    if not isinstance(table, Mapping):
        raise UserError(f"resources is a table such as {{cpus = 1, gpus = 0}}, got {table!r}")
    names = [one.name for one in fields(Resources)]
    for key in table:
        if key not in names:
            raise UserError(f"resources has no {key!r}; {hint(key, names)}")
    return Resources(**table)
