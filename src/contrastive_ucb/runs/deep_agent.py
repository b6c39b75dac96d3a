"""Deep agents in Python: `cu.SPRUCB("ALE/Pong-v5", seed=0)` learns, predicts, saves and loads.

It trains exactly as `cucb train`: the same seed, length and threads give the same bits.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import gymnasium
import numpy as np

from contrastive_ucb.agents.deep.presets import suitable_threads
from contrastive_ucb.agents.deep.trainer import DeepTrainer
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import as_path, check_import, check_number, check_size, hint
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import Event, ProgressListener
from contrastive_ucb.core.files import write_errors
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import choose_device, keep_freed_memory
from contrastive_ucb.core.runtime import threads as use_threads
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import ReplayFiles
from contrastive_ucb.envs.foreign import GymEnv, made
from contrastive_ucb.envs.gym_frames import GymFrames
from contrastive_ucb.evaluation.rollouts import digest
from contrastive_ucb.evaluation.rollouts import evaluate as play_episodes
from contrastive_ucb.runs.loop import follow, train
from contrastive_ucb.runs.result import Callback, Result, result_of
from contrastive_ucb.runs.save import save_folder, save_state
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import (
    RunFolder,
    checkpoint_errors,
    find_run,
    newest_checkpoint,
)
from contrastive_ucb.runs.training import Training, deep_kinds

EnvSource = str | GymEnv | Callable[[], GymEnv]
OWN = "own/"  # namespace of environments that were given as objects
_sources: dict[str, Any] = {}  # id: the instance or factory it was given as


def env_id(env: EnvSource) -> str:
    """The id of an environment; an instance or a factory is registered with Gymnasium.

    Evaluation needs several environments, so an instance is copied.
    """
    if isinstance(env, str):
        return env
    for name, source in _sources.items():
        if source is env:
            return name
    sample: Any = env
    if callable(env) and not isinstance(env, gymnasium.Env):
        sample = made(getattr(env, "__name__", "the function"), env)
    if not isinstance(sample, gymnasium.Env):
        raise UserError(
            f"env must be an id, a gymnasium.Env or a function that returns one, got"
            f" {type(sample).__name__}"
        )
    title, number = type(sample.unwrapped).__name__, 0
    while (name := f"{OWN}{title}-v{number}") in _sources:
        number += 1

    def make(**options: Any) -> GymEnv:
        if not isinstance(env, gymnasium.Env):
            return env()
        try:
            return deepcopy(env)
        except Exception as error:
            raise UserError(
                f"{title} cannot be copied ({type(error).__name__}: {error}); pass a function that"
                " makes it, such as lambda: MyEnv()"
            ) from error

    gymnasium.register(id=name, entry_point=make)
    _sources[name] = env
    return name


class DeepAgent:
    """A deep agent and the environment in which it learns.

    It trains exactly as `cucb train`: the same seed, length and threads give the same bits.

    Args:
        env: An id (`Pong`, `MinAtar/Breakout-v1`, `DeepSea-10`, `RichLock-6` or any Gymnasium id),
            a gymnasium.Env, or a function that returns one.
        seed: Seed of all random streams.
        algo: One of `cucb algos`.
        bonus: Preset of the UCB bonus: `paper`, `reference`, `algorithm-1` or `none`; by default
            that of the algorithm.
        settings: Changes to the algorithm, such as {"n_step": 3, "bonus.scale": 0.5}.
        device: auto takes CUDA if it is available.
        threads: Of torch; by default 2 for large images, otherwise 1.
        **more: Further settings, such as n_step=3.

    Raises:
        ValueError: The environment, the algorithm or a setting is not valid.

    Examples:
        >>> import contrastive_ucb as cu
        >>> agent = cu.DeepAgent("DeepSea-4", algo="rainbow", settings={"n_step": 3})
        >>> agent
        DeepAgent('DeepSea-4', seed=0, algo='rainbow'): 0 steps
    """

    kind = "deep"

    def __init__(
        self,
        env: EnvSource,
        seed: int = 0,
        *,
        algo: str = "spr-ucb",
        bonus: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int | None = None,
        **more: Any,
    ):
        if not isinstance(settings or {}, Mapping):
            raise UserError(
                f"settings must be a dictionary such as {{'n_step': 3}}, got {settings!r}"
            )
        for name in more.keys() - deep_kinds().keys():
            known = [*inspect.signature(DeepAgent).parameters, *deep_kinds()]
            raise UserError(f"no argument or setting is called {name!r}; {hint(name, known)}")
        chosen = dict(settings or {}) | more | ({} if bonus is None else {"bonus.preset": bonus})
        if threads is not None:
            check_size("threads", threads)
        self.device = choose_device(device)
        # `learn` sets the number of steps.
        self.training = Training(env_id(env), algo, chosen, steps=1, seed=seed)
        self.threads = threads or suitable_threads(self.training.frame_shape)
        self.trainer: DeepTrainer = self.training.trainer(self.device)
        self.run_dir: Path | None = None  # where it was loaded from
        self._draws = stream(seed, "predict")  # not saved: training does not depend on it

    @property
    def env(self) -> str:
        """The canonical name of the environment."""
        return self.training.env

    @property
    def n_steps(self) -> int:
        """Environment steps taken so far."""
        return self.trainer.n_steps

    @property
    def returns(self) -> Array:
        """Raw returns of all training episodes so far."""
        return np.array(self.trainer.returns)

    def __repr__(self) -> str:
        kept = self.training
        algo = "" if kept.algo == "spr-ucb" else f", algo={kept.algo!r}"
        name = type(self).__name__
        return f"{name}({self.env!r}, seed={kept.seed}{algo}): {self.n_steps} steps"

    def learn(
        self,
        env_steps: int | None = None,
        *,
        steps: int | None = None,
        resume: bool = False,
        out: str | Path = "runs",
        progress: bool = True,
        callback: Callback | None = None,
        **unknown: Any,
    ) -> Result:
        """Learn for more environment steps.

        Args:
            env_steps: The same as `steps`.
            steps: Number of environment steps.
            resume: Use a run folder below `out`: a script that was killed continues when it is
                repeated, and a finished run is loaded.
            out: Folder of the runs, used with `resume`.
            progress: Show a progress bar.
            callback: Called with every event (`event.step`, `event.values`); returning False stops.
            **unknown: Not accepted; an error explains the correct arguments.

        Returns:
            Curves and a summary of these steps.
        """
        if unknown:
            raise UserError(
                f"learn() of a deep agent has no {min(unknown)!r}; use learn(steps=...)"
            )
        if (steps is None) == (env_steps is None):
            raise UserError("learn() of a deep agent needs the number of steps: learn(steps=...)")
        length = env_steps if steps is None else steps
        assert length is not None
        check_size("steps", length)
        keep_freed_memory()
        with use_threads(self.threads):
            if resume:
                return self._learn_in_folder(length, as_path("out", out), progress, callback)
            return self._learn_here(length, progress, callback)

    def evaluate(self, episodes: int = 20, epsilon: float | None = None) -> dict[str, Any]:
        """Play whole episodes without noise, bonus and augmentation.

        The episodes are those of `cucb eval` and the same in every call.

        Args:
            episodes: Number of episodes.
            epsilon: Fraction of uniform actions; by default that of the algorithm.

        Returns:
            A dictionary with the `mean` and `median` raw score, the number of `episodes` and all
            `scores`.
        """
        trainer = self.trainer
        epsilon = trainer.config.eval_epsilon if epsilon is None else epsilon
        check_number("epsilon", epsilon)
        agent, seed, rules = trainer.agent, self.training.seed, trainer.config.atari
        with use_threads(self.threads):
            scores = play_episodes(agent, self.env, seed, episodes, epsilon, rules=rules)
        return {**digest(scores), "scores": scores.tolist()}

    def _learn_here(self, steps: int, progress: bool, callback: Callback | None) -> Result:
        until = self.n_steps + steps
        self.trainer.steps = until  # the importance weights grow until here
        for remark in self.training.remarks(until, device=self.device):
            warnings.warn(remark, stacklevel=3)
        bar = ProgressListener(until, self.training.algo, self.n_steps) if progress else None
        events: list[Event] = []
        observers = [events.append, callback] if callback else [events.append]
        follow(self.trainer.run(until), observers, bar=bar)
        measured = [event for event in events if event.values]
        return result_of(measured, [self.training.summary(self.trainer)], "step")

    def _learn_in_folder(
        self, steps: int, out: Path, progress: bool, callback: Callback | None
    ) -> Result:
        if self.n_steps:
            raise UserError(
                f"resume=True needs a new agent; this one has taken {self.n_steps} steps already"
            )
        self.training = replace(self.training, steps=steps)
        observers = [callback] if callback else []
        summary = train(
            self.training, out, progress=progress, device=self.device, observers=observers
        )
        folder = RunFolder(self.training.spec(), out)
        options: Any = {"device": self.device, "threads": self.threads, "allow_import": True}
        self.trainer = DeepAgent.of_run(folder.path, folder.spec, **options).trainer
        lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
        return result_of([Event(line.pop("step"), line) for line in lines], [summary], "step")

    def predict(
        self,
        observation: Frames,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """Choose the best actions for one observation or several.

        Args:
            observation: Stacked frames, oldest first and channels first, of shape (stack * C, ...)
                or (n, stack * C, ...). In a Gymnasium environment also what it returns, such as an
                image (H, W, C).
            state: Returned unchanged, for compatibility with Stable-Baselines3.
            episode_start: Ignored.
            deterministic: If False, a fraction `eval_epsilon` of the actions is uniform, as in
                evaluations.

        Returns:
            The actions, and `state`.
        """
        inputs, raw, env = self.trainer.agent.inputs, np.asarray(observation), self.trainer.env
        shape, kind = inputs.shape, inputs.dtype
        if raw.dtype.kind not in "bui" and (kind == np.uint8 or raw.dtype.kind != "f"):
            what = f"an image of integers ({kind})" if kind == np.uint8 else "an array of numbers"
            raise UserError(
                f"an observation of {self.env} is {what}, got {raw.dtype}; pass it as the"
                " environment returns it, not scaled to [0, 1]"
            )
        if isinstance(env, GymFrames) and raw.shape[-len(shape) :] != shape:
            raw = env.to_frames(raw)
        seen = np.asarray(raw, dtype=kind)
        if seen.shape[-len(shape) :] != shape or seen.ndim > len(shape) + 1:
            raise UserError(
                f"an observation of {self.env} has shape {shape}, got {seen.shape}; stack the last"
                f" {env.stack} frames, oldest first, with the channels as the first axis"
            )
        actions = self.trainer.agent.best(seen.reshape(-1, *shape))
        if not deterministic:
            drawn = self._draws.random((2, len(actions)))
            uniform = (drawn[1] * self.trainer.env.n_actions).astype(actions.dtype)
            actions = np.where(drawn[0] < self.trainer.config.eval_epsilon, uniform, actions)
        return actions.reshape(seen.shape[: seen.ndim - len(shape)]), state

    def save(self, folder: str | Path) -> Path:
        """Save agent and replay memory; `contrastive_ucb.load` loads them.

        Args:
            folder: Created if needed; an agent that was saved there is replaced.

        Returns:
            The path of the saved state in the folder.
        """
        place = save_folder(folder)
        files = ReplayFiles(place / "replay")
        with write_errors(files.folder):
            replay = files.save(self.trainer.replay)
        state = {
            "kind": self.kind,
            "env": self.env,
            "algo": self.training.algo,
            "settings": dict(self.training.settings),
            "seed": self.training.seed,
            "threads": self.threads,
            "steps": self.trainer.steps,
            "trainer": self.trainer.state_dict(),
            "replay": replay,
        }
        saved = save_state(place, state)
        files.prune([{"pieces": replay["pieces"]}])
        return saved

    @classmethod
    def load(
        cls,
        training: Training,
        state: Mapping[str, Any],
        folder: Path,
        *,
        weights_only: bool = False,
        **options: Any,
    ) -> Self:
        """The agent of a state that was saved in `folder`; it continues exactly where it stopped.

        weights_only  do not load the replay memory; the agent can play, but not continue
        options       device and threads
        """
        chosen: Any = {"algo": training.algo, "settings": training.settings, **options}
        _same_environment(state["trainer"]["env"]["env"], training.env)
        agent = cls(training.env, training.seed, **chosen)
        agent.training, agent.trainer.steps = training, training.steps
        if weights_only:
            learner: Any = agent.trainer.agent
            learner.load_state_dict(state["trainer"]["agent"])
            agent.trainer.n_steps = state["trainer"]["n_steps"]
        else:
            agent.trainer.load_state_dict(state["trainer"])
            ReplayFiles(folder / "replay").load(agent.trainer.replay, state["replay"])
        return agent

    @classmethod
    def restore(
        cls,
        folder: Path,
        state: Mapping[str, Any],
        env: EnvSource | None = None,
        allow_import: bool = False,
    ) -> Self:
        """The agent that `save` wrote to `folder`; for the arguments see `contrastive_ucb.load`."""
        with checkpoint_errors(folder, "save the agent again with this version"):
            names = ("algo", "settings", "steps", "seed")
            name = _given_again(state["env"], env, allow_import)
            values = [state[key] for key in names]
            # The bits depend on the number of threads.
            return cls.load(Training(name, *values), state, folder, threads=state["threads"])

    @classmethod
    def of_run(
        cls,
        run_dir: Path,
        spec: RunSpec,
        env: EnvSource | None = None,
        allow_import: bool = False,
        **options: Any,
    ) -> Self:
        """The agent of a run of `cucb train` at its newest checkpoint; for options see `load`."""
        with newest_checkpoint(run_dir, spec) as state:
            name = _given_again(spec.config["env"], env, allow_import)
            training = Training.of_spec(spec, name)
            agent = cls.load(training, state, run_dir, **options)
        agent.run_dir = run_dir
        return agent


class SPRUCB(DeepAgent):
    """SPR with the UCB bonus, the default algorithm of `DeepAgent`.

    Args:
        env: An id (`Pong`, `MinAtar/Breakout-v1`, `DeepSea-10`, `RichLock-6` or any Gymnasium id),
            a gymnasium.Env, or a function that returns one.
        seed: Seed of all random streams.
        algo: One of `cucb algos`.
        bonus: Preset of the UCB bonus: `paper`, `reference`, `algorithm-1` or `none`; by default
            that of the algorithm.
        settings: Changes to the algorithm, such as {"n_step": 3, "bonus.scale": 0.5}.
        device: auto takes CUDA if it is available.
        threads: Of torch; by default 2 for large images, otherwise 1.
        **more: Further settings, such as n_step=3.

    Raises:
        ValueError: The environment, the algorithm or a setting is not valid.

    Examples:
        >>> import contrastive_ucb as cu
        >>> agent = cu.SPRUCB("DeepSea-4", seed=0, bonus="algorithm-1")
        >>> result = agent.learn(steps=120, progress=False)
        >>> agent.n_steps
        120
    """


def load_weights(
    folder: Path,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    allow_import: bool = False,
) -> DeepAgent:
    """The agent of the run in or below `folder`, without its replay memory."""
    run_dir, spec = find_run(folder, "train")
    options: Any = {"weights_only": True, "device": device, "threads": threads}
    return DeepAgent.of_run(run_dir, spec, allow_import=allow_import, **options)


def evaluate(agent: Any, episodes: int = 100) -> dict[str, Any]:
    """Play whole episodes with an agent; the same as `agent.evaluate(episodes)`.

    Args:
        agent: A deep, finite or neural agent.
        episodes: Number of episodes.

    Returns:
        A dictionary with the `mean` and `median` score, the number of `episodes` and all `scores`.

    Raises:
        UserError: `agent` is not an agent; it is a `ValueError`.

    Examples:
        >>> import contrastive_ucb as cu
        >>> agent = cu.SPRUCB("DeepSea-4", seed=0)
        >>> sorted(cu.evaluate(agent, episodes=2))
        ['episodes', 'mean', 'median', 'scores']
    """
    if not callable(getattr(agent, "evaluate", None)):
        raise UserError(
            f"evaluate() takes an agent such as cu.SPRUCB or cu.ContrastiveUCB, got"
            f" {type(agent).__name__}"
        )
    scores: dict[str, Any] = agent.evaluate(episodes)
    return scores


def _same_environment(saved: dict[str, Any], name: str) -> None:
    """Give a saved environment the name of the object that was passed for it, if both are objects
    of one class: the numbers in these names count the objects of a process."""
    title = name.rpartition("-v")[0]
    if title.startswith(OWN) and title == saved["name"].rpartition("-v")[0]:
        saved["name"] = name


def _given_again(name: str, env: EnvSource | None, allow_import: bool) -> str:
    """The id of the environment of a saved agent; one of the user's own must be given again."""
    if env is not None:
        return env_id(env)
    if name.startswith(OWN) and name not in _sources:
        raise UserError(
            f"the agent was trained in {name}, which was given as an object; pass it again:"
            " cu.load(folder, env=...)"
        )
    check_import(name, allow_import)
    return name
