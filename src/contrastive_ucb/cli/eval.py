"""`cucb eval RUN`: evaluate the agent of a run of `cucb train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from contrastive_ucb.cli.options import AllowImport, Device, Json, Threads, emit, parse, text_of


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
    device: Device = "auto"
    allow_import: AllowImport = False
    json: Json = False


def run(arguments: Sequence[str]) -> None:
    options = parse(Evaluate, arguments, "cucb eval")

    from contrastive_ucb.runs.deep_agent import load_weights  # imports torch

    agent = load_weights(options.run, options.device, options.threads, options.allow_import)
    default = agent.trainer.config.eval_epsilon
    epsilon = default if options.epsilon is None else options.epsilon
    result = agent.evaluate(options.episodes, epsilon)
    scores = result.pop("scores")
    summary = {
        "algo": agent.training.algo,
        "env": agent.env,
        "seed": agent.training.seed,
        "step": agent.n_steps,
        **result,
        "epsilon": epsilon,
        "scores": scores,
        "run_dir": str(agent.run_dir),
    }
    emit(summary, options.json, text_of(summary))
