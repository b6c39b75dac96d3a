"""`cucb eval RUN`: evaluate the agent of a run of `cucb train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from contrastive_ucb.cli.options import emit, parse, run_and_rest, text_of
from contrastive_ucb.cli.train import use_threads
from contrastive_ucb.core.checks import check_size

HELP = """usage: cucb eval RUN [options]

Play episodes with the newest weights of a run and print the raw scores. RUN is a run folder, or the
--out of 'cucb train' if it contains one run.

`cucb eval RUN --help` lists the options, for example
  cucb eval runs/breakout --episodes 100 --json
"""


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with the newest weights of a run, without noise, bonus and augmentation."""

    episodes: int = 100
    """Number of episodes; up to 100 are played at once."""
    epsilon: float | None = None
    """Fraction of uniform actions, by default that of evaluations; 1 is the random policy."""
    threads: int | None = None
    """Threads of torch; by default 2 for large images (Atari), otherwise 1."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the networks; auto takes CUDA if it is available."""
    json: bool = False
    """Print the summary as one JSON object on stdout and everything else on stderr."""

    def __post_init__(self) -> None:
        check_size("episodes", self.episodes)
        if self.threads is not None:
            check_size("threads", self.threads)
        if self.epsilon is not None and not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be in [0, 1], got {self.epsilon}")


def run(arguments: Sequence[str]) -> None:
    given = run_and_rest(arguments, HELP)
    if given is None:
        return
    path, rest = given
    options = parse(Evaluate, rest, f"cucb eval {path}", Evaluate())

    from contrastive_ucb.core.runtime import choose_device
    from contrastive_ucb.evaluation.rollouts import digest, evaluate
    from contrastive_ucb.runs.deep_agent import load_trained  # imports torch

    trained = load_trained(Path(path), choose_device(options.device))
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
