"""The deep agents in Python: `cu.SPRUCB("ALE/Pong-v5", seed=0)` learns, predicts, saves and loads.

It is what `cucb train` trains, with the same bits for the same seed, length and threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from contrastive_ucb.agents.deep.presets import suitable_threads
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checkpoint import (
    latest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.checks import check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import Event, ProgressListener
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import (
    choose_device,
    interrupts,
    keep_freed_memory,
)
from contrastive_ucb.core.runtime import threads as use_threads
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import ReplayFiles
from contrastive_ucb.evaluation.rollouts import digest
from contrastive_ucb.evaluation.rollouts import evaluate as play_episodes
from contrastive_ucb.experiments.find import find_run
from contrastive_ucb.experiments.store import RunFolder
from contrastive_ucb.experiments.train import Training, explained, progress_values, train
from contrastive_ucb.experiments.train import resume as load_newest
from contrastive_ucb.experiments.words import flat
from contrastive_ucb.training.trainer import DeepTrainer


class DeepAgent:
    """A deep agent and the environment it learns in.

    env       `Pong`, `MinAtar/Breakout-v1`, `DeepSea-10`, `RichLock-6`, an id of Gymnasium
    algo      one that `cucb algos` lists
    bonus     preset of the UCB bonus: `paper`, `reference`, `algorithm-1` or `none`; by default the
              algorithm's
    settings  what else differs, such as {"n_step": 3, "bonus.scale": 0.5}
    device    auto takes CUDA where there is any
    threads   of torch while it learns and plays: by default 2 for large images, otherwise 1
    """

    kind = "deep"

    def __init__(
        self,
        env: str,
        seed: int = 0,
        *,
        algo: str = "spr-ucb",
        bonus: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int | None = None,
    ):
        chosen = dict(settings or {}) | ({} if bonus is None else {"bonus.preset": bonus})
        if threads is not None:
            check_size("threads", threads)
        self.device = choose_device(device)
        self.training = Training(env, algo, chosen, steps=1, seed=seed)  # `learn` says how many
        self.threads = threads or suitable_threads(self.training.frame_shape)
        self.trainer: DeepTrainer = self.training.trainer(self.device)
        self._draws = stream(seed, "predict")  # not saved: nothing that is learnt depends on it

    @property
    def env(self) -> str:
        """The one name of the environment."""
        return self.training.env

    @property
    def n_steps(self) -> int:
        """Steps that were learnt from."""
        return self.trainer.n_steps

    @property
    def returns(self) -> Array:
        """Raw returns of all training episodes so far."""
        return np.array(self.trainer.returns)

    def learn(
        self,
        env_steps: int,
        *,
        resume: bool = False,
        out: str | Path = "runs",
        progress: bool = True,
    ) -> Self:
        """Learn for `env_steps` more steps.

        resume  keep a run folder under `out`: a script that was killed and is repeated goes on
                where it was, and one that was finished learns nothing twice
        """
        check_size("env_steps", env_steps)
        keep_freed_memory()
        with use_threads(self.threads):
            if resume:
                return self._learn_in_folder(env_steps, Path(out), progress)
            return self._learn_here(env_steps, progress)

    def _learn_here(self, env_steps: int, progress: bool) -> Self:
        until = self.n_steps + env_steps
        self.trainer.steps = until  # importance weights grow up to here
        with ExitStack() as closing:
            bar: ProgressListener | None = None  # on a terminal, one that exists is drawn
            shown: dict[str, float] = {}
            if progress:
                bar = ProgressListener(until, self.training.algo, start=self.n_steps)
                closing.callback(bar.close)
            interrupted = closing.enter_context(interrupts())
            for event in self.trainer.run(until):
                if bar is not None:
                    shown |= progress_values(event)
                    bar.on_event(Event(event.step, shown))
                if interrupted.is_set():  # the step is whole, and a next call goes on from here
                    raise KeyboardInterrupt
        return self

    def _learn_in_folder(self, env_steps: int, out: Path, progress: bool) -> Self:
        if self.n_steps:
            raise UserError(
                f"resume=True is for a new agent; this one has learnt {self.n_steps} steps"
            )
        self.training = replace(self.training, steps=env_steps)
        train(self.training, out, progress=progress, device=self.device)
        self.trainer = self.training.trainer(self.device)
        folder = RunFolder(self.training.spec(), out)
        load_newest(self.trainer, ReplayFiles(folder.path / "replay"), folder.checkpoints)
        return self

    def predict(
        self,
        observation: Frames,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[IntArray, Any]:
        """The best actions for one observation (stack * C, ...) or several (n, stack * C, ...).

        `deterministic=False` draws the part `eval_epsilon` of them uniformly, as evaluations do.
        `state` and `episode_start` are there for tools that pass them.
        """
        inputs, given = self.trainer.agent.inputs, np.asarray(observation)
        shape, kind = inputs.shape, inputs.dtype
        if kind == np.uint8 and given.dtype.kind not in "bui":
            raise UserError(
                f"an observation of {self.env} is an image of whole numbers ({kind}), got "
                f"{given.dtype}; pass it as the environment gives it, not scaled to [0, 1]"
            )
        seen = np.asarray(observation, dtype=kind)
        if seen.shape[-len(shape) :] != shape or seen.ndim > len(shape) + 1:
            raise UserError(
                f"an observation of {self.env} has shape {shape}, got {seen.shape}; stack the last "
                f"{self.trainer.env.stack} frames, oldest first"
            )
        actions = self.trainer.agent.best(seen.reshape(-1, *shape))
        if not deterministic:
            drawn = self._draws.random((2, len(actions)))
            uniform = (drawn[1] * self.trainer.env.n_actions).astype(actions.dtype)
            actions = np.where(drawn[0] < self.trainer.config.eval_epsilon, uniform, actions)
        return actions.reshape(seen.shape[: seen.ndim - len(shape)]), state

    def save(self, folder: str | Path) -> Path:
        """Write everything into `folder`, its memory too; what was saved there is replaced."""
        place = Path(folder)
        files = ReplayFiles(place / "replay")
        before = latest_checkpoint(place)
        number = 1 if before is None else int(before.name.removeprefix("step_")) + 1
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
        saved = save_checkpoint(place, number, state)
        prune_checkpoints(place, keep=1)
        files.prune([{"pieces": replay["pieces"]}])
        return saved

    @classmethod
    def restore(cls, folder: Path, state: Mapping[str, Any]) -> DeepAgent:
        """The agent that `save` wrote into `folder`; it goes on exactly where it stopped."""
        with explained(folder, "save the agent again with this version"):
            agent = DeepAgent(
                state["env"],
                state["seed"],
                algo=state["algo"],
                settings=state["settings"],
                threads=state.get("threads"),  # bits depend on it; early files do not have it
            )
            agent.trainer.steps = state["steps"]
            agent.trainer.load_state_dict(state["trainer"])
            ReplayFiles(folder / "replay").load(agent.trainer.replay, state["replay"])
        return agent

    @classmethod
    def of_run(cls, folder: Path) -> DeepAgent:
        """The agent of the run of `cucb train` in `folder`, at its newest checkpoint."""
        run_dir, spec = find_run(folder, "train")
        with explained(run_dir):
            config = spec["config"]
            settings = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in flat(config["agent"])
            }  # JSON has no tuples
            agent = DeepAgent(config["env"], spec["seed"], algo=spec["agent"], settings=settings)
            agent.training = replace(agent.training, steps=config["steps"])
            agent.trainer.steps = config["steps"]
        files = ReplayFiles(run_dir / "replay")
        if load_newest(agent.trainer, files, run_dir / "checkpoints") is None:
            raise UserError(f"{run_dir} has no checkpoint yet; repeat its command to train it")
        return agent


class SPRUCB(DeepAgent):
    """SPR with the UCB bonus: `DeepAgent` with algo="spr-ucb"."""

    def __init__(
        self,
        env: str,
        seed: int = 0,
        *,
        bonus: str | None = None,
        settings: Mapping[str, Any] | None = None,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int | None = None,
    ):
        own: Any = {"bonus": bonus, "settings": settings, "device": device, "threads": threads}
        super().__init__(env, seed, algo="spr-ucb", **own)


def evaluate(agent: DeepAgent, episodes: int = 100) -> dict[str, Any]:
    """Raw scores of whole episodes without noise, bonus and augmentation: mean, median, scores."""
    config = agent.trainer.config
    player, seed = agent.trainer.agent, agent.training.seed
    with use_threads(agent.threads):
        scores = play_episodes(
            player, agent.env, seed, episodes, config.eval_epsilon, rules=config.atari
        )
    return {**digest(scores), "scores": scores.tolist()}
