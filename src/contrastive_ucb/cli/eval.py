"""`cucb eval RUN`: evaluate the agent of a run of `cucb train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from contrastive_ucb.cli.options import (
    Json,
    Threads,
    check_counts,
    check_fraction,
    emit,
    parse,
    text_of,
)
from contrastive_ucb.cli.train import use_threads


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with the newest weights of a run, without noise, bonus and augmentation, and
    print the raw scores.

    example:
      cucb eval runs/breakout --episodes 100 --json
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run folder, or the --out of 'cucb train' if it contains one run."""
    episodes: int = 100
    """Number of episodes; up to 100 are played at once."""
    epsilon: float | None = None
    """Fraction of uniform actions, by default that of evaluations; 1 is the random policy."""
    threads: Threads = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the networks; auto takes CUDA if it is available."""
    json: Json = False

    def __post_init__(self) -> None:
        check_counts(self, "episodes", "threads")
        check_fraction("epsilon", self.epsilon)


def run(arguments: Sequence[str]) -> None:
    options = parse(Evaluate, arguments, "cucb eval")

    from contrastive_ucb.core.runtime import choose_device
    from contrastive_ucb.evaluation.rollouts import digest, evaluate
    from contrastive_ucb.runs.deep_agent import load_trained  # imports torch

    trained = load_trained(options.run, choose_device(options.device))
    use_threads(options.threads, trained.frame_shape)
    epsilon = trained.config.eval_epsilon if options.epsilon is None else options.epsilon
    rules = trained.config.atari
    scores = evaluate(
        trained.agent, trained.env, trained.seed, options.episodes, epsilon, rules=rules
    )
    summary = {
        "algo": trained.algo,
        "env": trained.env,
        "seed": trained.seed,
        "step": trained.step,
        **digest(scores),
        "epsilon": epsilon,
        "scores": scores.tolist(),
        "run_dir": str(trained.run_dir),
    }
    emit(summary, options.json, text_of(summary))
