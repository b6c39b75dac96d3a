"""What a run of `cucb train` has learnt, found by its folder and loaded without its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.agents.simple.agent import Simple
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.core.checkpoint import latest_checkpoint, load_checkpoint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.frames import FrameEnv
from contrastive_ucb.envs.registry import make_deep_env
from contrastive_ucb.experiments.find import find_run
from contrastive_ucb.experiments.train import explained


@dataclass(frozen=True)
class Trained:
    """The newest weights of a run, what its bonus has counted, and all else it takes to play."""

    run_dir: Path
    algo: str
    env: str
    seed: int
    step: int
    frame_shape: tuple[int, ...]
    config: RainbowConfig | SimpleConfig
    agent: Rainbow | Simple


def load_trained(path: Path, device: str = "cpu") -> Trained:
    """The newest weights of the run in the folder `path`, or of the only run below it."""
    run_dir, spec = find_run(path, "train")
    newest = latest_checkpoint(run_dir / "checkpoints")
    if newest is None:
        raise UserError(f"{run_dir} has no checkpoint yet; repeat its command to train it")
    with explained(newest):
        name, seed, config = spec["config"]["env"], spec["seed"], _config_of(spec)
        env = make_deep_env(name, seed=seed, training=True, rules=config.atari)
        state = load_checkpoint(newest)["trainer"]
        agent = _agent_of(config, env, seed, device, state["agent"])
        step, shape = state["n_steps"], env.frame_shape
        return Trained(run_dir, spec["agent"], name, seed, step, shape, config, agent)


def _agent_of(
    config: RainbowConfig | SimpleConfig,
    env: FrameEnv,
    seed: int,
    device: str,
    state: Mapping[str, Any],
) -> Rainbow | Simple:
    """The agent with its weights, without what only learning needs."""
    about: Any = (env.frame_shape, env.stack, env.n_actions, env.value_range, seed, device)
    if isinstance(config, SimpleConfig):
        agent = Simple(config, *about)
        agent.load_state_dict(state)
        return agent
    learner = Rainbow(config, *about)
    learner.network.load_state_dict(state["network"])
    if learner.bonus is not None:
        learner.bonus.load_state_dict(state["bonus"])
    return learner


def _config_of(spec: Mapping[str, Any]) -> RainbowConfig | SimpleConfig:
    """The configuration of the agent that became these JSON values."""
    values: dict[str, Any] = dict(spec["config"]["agent"])
    for name, value in values.items():
        if isinstance(value, list):  # JSON has no tuples
            values[name] = tuple(value)
    if spec["agent"] == "simple":
        return SimpleConfig(**values)
    return RainbowConfig(**values | {"bonus": BonusConfig(**values["bonus"])})
