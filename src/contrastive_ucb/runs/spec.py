"""RunSpec: the specification of a run, its folder, and the command that repeats it.

`spec.json` in the run folder contains

suite, agent, task, seed   names that make up the path of the folder
config                     the resolved configuration; the hash in the path covers it
inputs                     what the user gave: algo, env, settings and length
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

# Names become folders: no separators, no spaces, and a leading dot marks unfinished files.
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
FOLDER_NAME = 80  # most characters of the folder name of a group of runs

Kind = Literal["solve", "train"]
LENGTHS: dict[Kind, str] = {"solve": "rounds", "train": "steps"}  # keys of `config` and options


@dataclass(frozen=True)
class RunSpec:
    """One run of `agent` on `task` with one seed, as part of `suite`."""

    suite: str
    agent: str
    task: str
    seed: int
    config: Mapping[str, Any] = field(hash=False)  # JSON values; tuples become lists
    inputs: Mapping[str, Any] | None = field(default=None, compare=False)  # None in old folders

    def __post_init__(self) -> None:
        for part in ("suite", "agent", "task"):
            name = getattr(self, part)
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise ValueError(
                    f"{part} must be 1 to 200 of the characters A-Z a-z 0-9 . _ - and not start"
                    f" with a dot, got {name!r}"
                )
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}")
        if not isinstance(self.config, Mapping):
            raise ValueError(f"config must be a mapping, got {type(self.config).__name__}")
        # Copies, so that later changes by the caller do not change the identity of the run.
        for name in ("config", "inputs"):
            copy = json.loads(json.dumps(getattr(self, name), allow_nan=False))
            object.__setattr__(self, name, copy)

    @property
    def kind(self) -> Kind | None:
        """The command that makes such a run; None if it is not known."""
        return kind_of(self.config)

    def to_json(self) -> dict[str, Any]:
        """The content of spec.json."""
        content = {name: getattr(self, name) for name in ("suite", "agent", "task", "seed")}
        content["config"] = self.config
        return content if self.inputs is None else {**content, "inputs": self.inputs}

    def identity(self) -> str:
        """sha256 of everything except seed and inputs: runs with one identity are repetitions."""
        parts = {"suite": self.suite, "agent": self.agent, "task": self.task, "config": self.config}
        canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def folder(self, root: Path) -> Path:
        """The run folder: `root`/suite/agent/task-settings-hash/seed_n.

        The hash identifies the run. The name has as many of the given settings as fit, for readers,
        so a folder with the same hash and other settings in its name is the folder of this run too.
        """
        parent, digest = root / self.suite / self.agent, self.identity()[:8]
        title = self.task
        for key, value in ((self.inputs or {}).get("settings") or {}).items():
            text = Path(value).name if key == "path" else value_text(value)
            named = text if isinstance(value, Mapping) else f"{key}={text}"
            setting = re.sub(r"[^A-Za-z0-9._=,-]", "-", named)
            longer = f"{title}{'-' if title == self.task else ','}{setting}"
            if len(longer) < FOLDER_NAME - len(digest):
                title = longer
        name = f"{title}-{digest}"
        if not (parent / name).is_dir():
            name = min((path.name for path in parent.glob(f"{self.task}-*{digest}")), default=name)
        return parent / name / f"seed_{self.seed}"


def kind_of(config: Any) -> Kind | None:
    """The command whose runs have such a configuration, by the name of its length."""
    if not isinstance(config, Mapping):
        return None
    return next((kind for kind, length in LENGTHS.items() if length in config), None)


def value_text(value: Any) -> str:
    """A value as `--set KEY=VALUE` reads it; a table as KEY=VALUE pairs."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={value_text(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(value_text(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def command_words(
    kind: Kind, inputs: Mapping[str, Any], eval_episodes: int | None = None
) -> list[str]:
    """The command of a run with these inputs, without seeds and output folder."""
    env, settings = inputs["env"], inputs["settings"]
    words = ["cucb", kind, env, "--algo", inputs["algo"]]
    if kind == "solve":
        for key, value in settings.items():
            option = f"--{key.replace('_', '-')}"
            if isinstance(value, Mapping):
                words += [option, *(f"{name}={json.dumps(item)}" for name, item in value.items())]
            else:
                words += [option, str(value)]
        if inputs.get("env_seed") is not None:
            words += ["--env-seed", str(inputs["env_seed"])]
        return [*words, "--rounds", str(inputs["length"])]
    if settings:
        words += ["--set", *(f"{key}={value_text(value)}" for key, value in settings.items())]
    words += ["--steps", str(inputs["length"]), "--threads", "1"]  # threads of a sweep's workers
    if eval_episodes is not None:
        from contrastive_ucb.evaluation.rollouts import default_episodes

        if eval_episodes != default_episodes(env):
            words += ["--eval-episodes", str(eval_episodes)]
    return words


def commands(words: Sequence[str], seeds: Sequence[int], root: Path | None) -> list[str]:
    """Command lines that run these seeds, one per range of consecutive seeds."""
    out = [] if root is None else ["--out", str(root)]
    lines = []
    for first, count in consecutive(seeds):
        several = ["--seeds", str(count)] if count > 1 else []
        lines.append(shlex.join([*words, "--seed", str(first), *several, *out]))
    return lines


def consecutive(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive seeds: the first seed and the length of each."""
    ranges = []
    # Within a range, seed - index is constant.
    for _, group in groupby(enumerate(sorted(set(seeds))), lambda pair: pair[1] - pair[0]):
        (_, first), *rest = group
        ranges.append((first, 1 + len(rest)))
    return ranges
