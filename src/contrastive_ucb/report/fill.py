"""Commands that fill gaps of runs that no sweep has written down."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from contrastive_ucb.experiments import words
from contrastive_ucb.experiments.spec import RunSpec


def commands(
    spec: RunSpec, seeds: Sequence[int], root: Path, eval_episodes: int | None = None
) -> list[str]:
    """What runs these seeds of `spec` into the store `root`, one command for neighbouring seeds.

    eval_episodes  of the last evaluation, which is no part of a specification
    """
    if not seeds:
        return []
    if spec.suite not in ("solve", "train"):  # whoever made the suite repeats it, and skips
        return [shlex.join(["cucb", spec.suite, "--out", str(root)])]  # what is done
    return words.commands(words.words_of_spec(spec, eval_episodes), seeds, root)
