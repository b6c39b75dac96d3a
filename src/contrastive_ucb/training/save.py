"""A whole agent in one folder, its MDP or game included, so that `load` needs nothing else."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.games import TabularGame
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
    from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB
    from contrastive_ucb.agents.learner import Learner
    from contrastive_ucb.experiments.deep_agent import DeepAgent

E = TypeVar("E", TabularMDP, TabularGame)
SHARED = ("reveals_reward", "solved_gap", "suggested_alpha")  # what an environment's class says


def save_agent(agent: Learner[Any], folder: str | Path) -> Path:
    """Write the agent into `folder`; what was saved there before is replaced, in one step."""
    count = range(len(agent.seeds))
    state = {
        "kind": agent.kind,
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


def load_agent(folder: str | Path) -> ContrastiveUCB | ContrastiveULCB | DeepAgent:
    """The agent that was saved in `folder` last; it goes on exactly where it stopped."""
    from contrastive_ucb.agents.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.contrastive_ulcb import ContrastiveULCB

    path = latest_checkpoint(Path(folder))
    if path is None:
        raise UserError(f"there is no saved agent in {folder}; write one with agent.save(folder)")
    state = load_checkpoint(path)
    if state.get("kind") == "deep":
        from contrastive_ucb.experiments.deep_agent import DeepAgent

        return DeepAgent.restore(Path(folder), state)
    common = {
        "seed": state.get("seeds"),
        "algo": state.get("algo"),
        "negative_distribution": state.get("negatives"),
        **state.get("config", {}),
    }
    agent: ContrastiveUCB | ContrastiveULCB
    if state.get("kind") == ContrastiveUCB.kind:
        agent = ContrastiveUCB([_env(TabularMDP, env) for env in state["envs"]], **common)
    elif state.get("kind") == ContrastiveULCB.kind:
        agent = ContrastiveULCB([_env(TabularGame, env) for env in state["envs"]], **common)
    else:
        raise UserError(
            f"{path} is no saved agent but a run, which is resumed by repeating its command"
        )
    agent.session.load_states(state["session"])
    return agent


def _env_state(env: Env) -> dict[str, Any]:
    own = ("rewards", "reward_scale", "initial", "rank", "name")
    kernel = {"features": env.kernel.features, "measures": env.kernel.measures}
    return {**kernel, **{name: getattr(env, name) for name in (*own, *SHARED)}}


def _env(kind: type[E], state: dict[str, Any]) -> E:
    env = kind(
        Kernel(state["features"], state["measures"]),
        state["rewards"],
        state["initial"],
        reward_scale=state["reward_scale"],
        rank=state["rank"],
        name=state["name"],
    )
    # Dividing rows by their sum twice may change the last bit, and a run goes on bit for bit.
    env.kernel, env.initial = Kernel(state["features"], state["measures"]), state["initial"]
    for name in SHARED:
        setattr(env, name, state[name])
    return env
