"""A whole agent in one folder, its MDP included, so that `load` needs nothing else."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.tabular import TabularMDP
from contrastive_ucb.errors import UserError
from contrastive_ucb.training.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)

if TYPE_CHECKING:
    from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB


def save_agent(agent: ContrastiveUCB, folder: str | Path) -> Path:
    """Write the agent into `folder`; what was saved there before is replaced, in one step."""
    count = range(len(agent.seeds))
    state = {
        "kind": "contrastive-ucb",
        "algo": agent.algo,
        "seeds": agent.seeds,
        "config": asdict(agent.config),
        "negatives": agent.negatives,
        "envs": [_env_state(env) for env in agent.envs],
        "session": [agent.session.state_of(seed) for seed in count],
    }
    # Numbered by saves, not by rounds: the newest save wins whatever agent it is of.
    before = latest_checkpoint(Path(folder))
    number = 1 if before is None else int(before.name.removeprefix("step_")) + 1
    saved = save_checkpoint(Path(folder), number, state)
    prune_checkpoints(Path(folder), keep=1)
    return saved


def load_agent(folder: str | Path) -> ContrastiveUCB:
    """The agent that was saved in `folder` last; it goes on exactly where it stopped."""
    from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB

    path = latest_checkpoint(Path(folder))
    if path is None:
        raise UserError(f"there is no saved agent in {folder}; write one with agent.save(folder)")
    state = load_checkpoint(path)
    if state.get("kind") != "contrastive-ucb":
        raise UserError(f"{path} is no saved agent; runs are resumed by repeating their command")
    agent = ContrastiveUCB(
        [_env(env) for env in state["envs"]],
        seed=state["seeds"],
        algo=state["algo"],
        negative_distribution=state["negatives"],
        **state["config"],
    )
    agent.session.load_states(state["session"])
    return agent


def _env_state(env: TabularMDP) -> dict[str, Any]:
    own = ("rewards", "reward_scale", "initial", "rank", "name")
    shared = ("reveals_reward", "solved_gap", "suggested_alpha")
    kernel = {"features": env.kernel.features, "measures": env.kernel.measures}
    return {**kernel, **{name: getattr(env, name) for name in (*own, *shared)}}


def _env(state: dict[str, Any]) -> TabularMDP:
    env = TabularMDP(
        Kernel(state["features"], state["measures"]),
        state["rewards"],
        state["initial"],
        reward_scale=state["reward_scale"],
        rank=state["rank"],
        name=state["name"],
    )
    # Dividing rows by their sum twice may change the last bit, and a run goes on bit for bit.
    env.kernel, env.initial = Kernel(state["features"], state["measures"]), state["initial"]
    for name in ("reveals_reward", "solved_gap", "suggested_alpha"):
        setattr(env, name, state[name])
    return env
