"""Save and load agents: `agent.save(folder)` and `contrastive_ucb.load(folder)`.

The folder of a finite or neural agent contains its environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gymnasium

from contrastive_ucb.core.checkpoint import (
    finished_steps,
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.checks import as_path, check_import
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import refuse_links, write_errors
from contrastive_ucb.envs.batch import Env
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite_twin import OneHot
from contrastive_ucb.envs.gym_observed import GymObserved
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.rich_lock import RichLock, RichLockGame
from contrastive_ucb.envs.tabular import TabularGame, TabularMDP
from contrastive_ucb.runs.problem import Problem
from contrastive_ucb.runs.store import checkpoint_errors, find_run, newest_checkpoint

if TYPE_CHECKING:
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
    from contrastive_ucb.agents.finite.learner import Learner
    from contrastive_ucb.runs.deep_agent import DeepAgent, EnvSource

OBSERVED: dict[str, Callable[..., ObservedEnv]] = {
    kind.__name__: kind for kind in (ContinuousMDP, RichLock, RichLockGame, GymObserved)
}
STORED = ("rewards", "initial", "reward_scale", "rank", "name")  # arguments beside the kernel
SHARED = ("reveals_reward", "solved_gap", "suggested_alpha")  # attributes of the class


def save_agent(agent: Learner[Any], folder: str | Path) -> Path:
    """Save the agent in `folder`, atomically replacing an agent that was saved there."""
    state = {
        "kind": agent.kind,
        "algo": agent.algo,
        "seeds": agent.seeds,
        "config": asdict(agent.config),
        "negatives": agent.negatives if agent.is_tabular else None,
        "envs": [_env_state(env) for env in agent.envs],
        "session": [agent.session.state_of(seed) for seed in range(len(agent.seeds))],
    }
    return save_state(save_folder(folder), state)


def save_folder(folder: str | Path) -> Path:
    """The folder to save an agent in; an existing file is an error."""
    place = as_path("folder", folder)
    if place.exists() and not place.is_dir():
        raise UserError(f"{place} is a file; name a folder to save the agent in")
    refuse_links_of(place)
    return place


def refuse_links_of(folder: Path) -> None:
    """Raise an error if a saved agent in the folder contains a symbolic link."""
    for part in (*folder.glob("*step_*"), folder / "replay"):
        refuse_links(part)


def save_state(folder: Path, state: dict[str, Any]) -> Path:
    """Replace the agent that was saved in the folder."""
    # Numbered by saves, not by rounds: the newest save counts, whatever agent it contains.
    step = max(finished_steps(folder), default=0) + 1
    with write_errors(folder):
        saved = save_checkpoint(folder, step, state, {"kind": "saved agent"})
        prune_checkpoints(folder, keep=1)
    return saved


def load(
    folder: str | Path, env: EnvSource | None = None, *, allow_import: bool = False
) -> ContrastiveUCB | ContrastiveULCB | DeepAgent:
    """Load an agent, which continues exactly where it stopped.

    Args:
        folder: Where `agent.save` saved it, or the folder of a run of `cucb solve` or `cucb train`,
            whose newest checkpoint is loaded.
        env: Needed only if the environment of the agent was given as an instance or a factory.
        allow_import: Import the Python module that the folder names if its environment is
            `module:Env-v0`. Importing a module runs its code, so allow it only if you trust it.

    Returns:
        The agent that was saved last.

    Raises:
        UserError: There is no saved agent in the folder, or a module would have to be imported;
            it is a `ValueError`.

    Examples:
        >>> import tempfile
        >>> import contrastive_ucb as cu
        >>> agent = cu.ContrastiveUCB(cu.Lock(horizon=2, n_actions=2), seed=0)
        >>> result = agent.learn(rounds=5, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = agent.save(folder)
        ...     cu.load(folder).n_rounds
        5
    """
    from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
    from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB

    place = as_path("folder", folder)
    path = latest_checkpoint(place)
    if path is None:
        return _agent_of_run(place, env, allow_import)
    refuse_links_of(place)
    state = load_checkpoint(path)
    if state.get("kind") == "deep":
        from contrastive_ucb.runs.deep_agent import DeepAgent

        return DeepAgent.restore(place, state, env, allow_import)
    kinds: dict[Any, Any] = {
        ContrastiveUCB.kind: (ContrastiveUCB, TabularMDP),
        ContrastiveULCB.kind: (ContrastiveULCB, TabularGame),
    }
    if state.get("kind") not in kinds:
        raise UserError(
            f"{path} is a checkpoint of a run; name the run folder, which contains spec.json"
        )
    make, env_kind = kinds[state["kind"]]
    agent: ContrastiveUCB | ContrastiveULCB = make(
        [_env(env_kind, saved, env, allow_import) for saved in state["envs"]],
        seed=state["seeds"],
        algo=state["algo"],
        negative_distribution=state["negatives"],
        **state["config"],
    )
    with checkpoint_errors(path, "train the agent again"):
        agent.session.load_states(state["session"])
    return agent


def _agent_of_run(
    folder: Path, env: EnvSource | None, allow_import: bool
) -> ContrastiveUCB | ContrastiveULCB | DeepAgent:
    """The agent of the run in or below the folder."""
    from contrastive_ucb.runs.deep_agent import DeepAgent

    if not any(folder.rglob("spec.json")):
        raise UserError(f"there is no saved agent in {folder}; save one with agent.save(folder)")
    run_dir, spec = find_run(folder, "solve", "train")
    if spec.kind == "train":
        return DeepAgent.of_run(run_dir, spec, env, allow_import)
    with newest_checkpoint(run_dir, spec) as state:
        problem = Problem.of_spec(spec)
        check_import(problem.env_settings.get("env_id"), allow_import)
        agent: Any = problem.agent([spec.seed])
        agent.session.load_states([state.get("session", state)])
    return cast("ContrastiveUCB | ContrastiveULCB", agent)


def _env_state(env: Env | ObservedEnv) -> dict[str, Any]:
    """What `_env` needs: the arrays of a finite environment, or its class and arguments."""
    if isinstance(env, OneHot):
        return _env_state(env.base)
    if isinstance(env, ObservedEnv):
        kind = type(env).__name__
        if kind not in OBSERVED:
            raise UserError(f"{kind} cannot be saved; only {', '.join(OBSERVED)} can")
        return {"observed": kind, "arguments": dict(env.arguments), "title": _title(env)}
    kernel = {"features": env.kernel.features, "measures": env.kernel.measures}
    return {**kernel, **{name: getattr(env, name) for name in (*STORED, *SHARED)}}


def _title(env: ObservedEnv) -> str:
    """Name and sizes of an environment."""
    return f"{env.name}, {env!r}"


def _env(
    kind: type[TabularMDP | TabularGame],
    state: dict[str, Any],
    given: EnvSource | None,
    allow_import: bool,
) -> Any:
    """The saved environment; `given` is one that was an object and could not be saved."""
    if "observed" in state:
        arguments = state["arguments"]
        if "env_id" not in arguments or arguments["env_id"] is not None:
            check_import(arguments.get("env_id"), allow_import)
            return OBSERVED[state["observed"]](**arguments)
        return _given_again(arguments, state["title"], given)
    kernel = Kernel(state["features"], state["measures"])
    env: Any = kind(kernel, **{name: state[name] for name in STORED})
    # The constructor normalizes rows, which may change the last bit of arrays.
    env.kernel, env.initial = kernel, state["initial"]
    for name in SHARED:
        setattr(env, name, state[name])
    return env


def _given_again(arguments: dict[str, Any], title: str, given: EnvSource | None) -> GymObserved:
    """An environment that was an instance or a factory, which could not be saved."""
    if given is None:
        raise UserError(
            f"the agent was trained in {title}, which was given as an object; pass it again:"
            " cu.load(folder, env=...)"
        )
    if isinstance(given, gymnasium.Env):  # it is made already
        arguments = {**arguments, "env_kwargs": None}
    env = GymObserved(**{**arguments, "env_id": given})
    if _title(env) != title:
        raise UserError(f"the agent was trained in {title}, got {_title(env)}; pass the former")
    return env
