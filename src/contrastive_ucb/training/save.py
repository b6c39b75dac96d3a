"""A whole agent in one folder, its MDP or game included, so that `load` needs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from contrastive_ucb.core.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite_twin import OneHot
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
    from contrastive_ucb.agents.finite.learner import Learner
    from contrastive_ucb.experiments.deep_agent import DeepAgent

E = TypeVar("E", TabularMDP, TabularGame)
OBSERVED: dict[str, Callable[..., ObservedEnv]] = {
    kind.__name__: kind for kind in (ContinuousMDP, RichLock, RichLockGame, GymObserved)
}
SHARED = ("reveals_reward", "solved_gap", "suggested_alpha")  # what an environment's class says


def save_agent(agent: Learner[Any], folder: str | Path) -> Path:
    """Write the agent into `folder`; what was saved there before is replaced, in one step."""
    count = range(len(agent.seeds))
    state = {
        "kind": agent.kind,
        "algo": agent.algo,
        "seeds": agent.seeds,
        "config": asdict(agent.config),
        "negatives": agent.negatives if agent.is_tabular else None,
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
    """The agent that was saved in `folder` last; it goes on exactly where it stopped.

    The folder of a run of `cucb solve` or `cucb train` gives its agent at the newest checkpoint.
    """
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB

    path = latest_checkpoint(Path(folder))
    if path is None:
        return _agent_of_run(Path(folder))
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
        agent = ContrastiveUCB([_made_again(TabularMDP, env) for env in state["envs"]], **common)
    elif state.get("kind") == ContrastiveULCB.kind:
        agent = ContrastiveULCB([_made_again(TabularGame, env) for env in state["envs"]], **common)
    else:
        raise UserError(
            f"{path} is a checkpoint of a run; name the folder of the run, in which spec.json is"
        )
    agent.session.load_states(state["session"])
    return agent


def _agent_of_run(folder: Path) -> ContrastiveUCB | ContrastiveULCB | DeepAgent:
    """The agent of a run; any other folder is an error of one line."""
    from contrastive_ucb.experiments.deep_agent import DeepAgent
    from contrastive_ucb.experiments.find import command_of, find_run
    from contrastive_ucb.experiments.solved import load_solved

    if not any(folder.rglob("spec.json")):
        raise UserError(f"there is no saved agent in {folder}; write one with agent.save(folder)")
    run_dir, spec = find_run(folder, "solve", "train")
    if command_of(spec) == "train":
        return DeepAgent.of_run(run_dir)
    agent: Any = load_solved(run_dir, spec)
    return cast("ContrastiveUCB | ContrastiveULCB", agent)


def _env_state(env: Env | ObservedEnv) -> dict[str, Any]:
    """All that `_made_again` needs: the arrays of a finite environment, or how one was made."""
    if isinstance(env, OneHot):
        return _env_state(env.base)
    if isinstance(env, ObservedEnv):
        kind = type(env).__name__
        if kind not in OBSERVED:
            raise UserError(f"{kind} cannot be saved; only {', '.join(OBSERVED)} can")
        return {"observed": kind, "arguments": dict(env.arguments)}
    own = ("rewards", "reward_scale", "initial", "rank", "name")
    kernel = {"features": env.kernel.features, "measures": env.kernel.measures}
    return {**kernel, **{name: getattr(env, name) for name in (*own, *SHARED)}}


def _made_again(kind: type[E], state: dict[str, Any]) -> E | ObservedEnv:
    if "observed" in state:
        return OBSERVED[state["observed"]](**state["arguments"])
    return _env(kind, state)


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
