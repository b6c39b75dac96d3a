"""What a run of `cucb solve` has learnt, as an agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.experiments.problem import Problem
from contrastive_ucb.experiments.spec import RunSpec
from contrastive_ucb.experiments.train import explained


def load_solved(run_dir: Path, spec: Mapping[str, Any]) -> Learner[Any]:
    """The agent of the run in `run_dir` at its newest checkpoint; it can go on from there."""
    newest = latest_checkpoint(run_dir / "checkpoints")
    if newest is None:
        raise UserError(f"{run_dir} has no checkpoint yet; repeat its command")
    with explained(newest):
        agent = Problem.of_spec(RunSpec(**spec)).agent([spec["seed"]])
        agent.session.load_states([load_checkpoint(newest)["session"]])
    return agent
