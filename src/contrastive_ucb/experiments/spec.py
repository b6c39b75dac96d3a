"""RunSpec: everything that determines the result of a run, and the name that follows from it."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Names become folders: no separators, no spaces, and a leading dot would mean "unfinished".
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True)
class RunSpec:
    """One run: `agent` on `task` with this seed, as part of `suite`."""

    suite: str
    agent: str
    task: str
    seed: int
    config: Mapping[str, Any] = field(hash=False)  # plain JSON values; tuples become lists

    def __post_init__(self) -> None:
        for part in ("suite", "agent", "task"):
            name = getattr(self, part)
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise ValueError(
                    f"{part} must be 1 to 200 of the characters A-Z a-z 0-9 . _ - and not begin"
                    f" with a dot, got {name!r}"
                )
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}")
        if not isinstance(self.config, Mapping):
            raise ValueError(f"config must be a mapping, got {type(self.config).__name__}")
        # A copy of its own, so that nobody can change the identity of a spec afterwards.
        object.__setattr__(self, "config", plain_json(self.config, "config"))

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values, as it stands in spec.json."""
        return {
            "suite": self.suite,
            "agent": self.agent,
            "task": self.task,
            "seed": self.seed,
            "config": self.config,
        }

    def identity(self) -> str:
        """sha256 of everything but the seed: runs with the same identity are repetitions."""
        content = {key: value for key, value in self.to_json().items() if key != "seed"}
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def folder(self, root: Path) -> Path:
        """Where the run lives: equal settings meet in one folder, different ones never do."""
        task = f"{self.task}-{self.identity()[:8]}"
        return root / self.suite / self.agent / task / f"seed_{self.seed}"


def plain_json(value: Any, where: str) -> Any:
    """A copy of `value` in JSON values only; what JSON cannot hold is an error naming its place."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(
                f"{where} is {value}; JSON has no such number, leave it out or use None"
            )
        return value
    if isinstance(value, (list, tuple)):
        return [plain_json(item, f"{where}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise ValueError(f"{where} has the key {key!r}; keys must be strings")
        return {key: plain_json(item, f"{where}.{key}") for key, item in value.items()}
    raise ValueError(
        f"{where} is a {type(value).__name__}; only None, bool, int, float, str, lists and dicts"
        " can be kept as JSON: convert it first"
    )
