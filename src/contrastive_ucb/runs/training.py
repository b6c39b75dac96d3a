"""Training: a run of `cucb train` as data, and DeepSession: its trainer with evaluations.

It imports torch only when a trainer is made. The folder of such a run has two files more than
others:

replay/      entries of the replay memory, to which checkpoints refer
eval.jsonl   one line per evaluation: step, mean, median, episodes, scores
"""

from __future__ import annotations

import json
import re
import time
import warnings
from ast import literal_eval
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, get_origin

from contrastive_ucb.agents.deep.config import BonusConfig, ExplorerConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import ALGORITHMS, BONUSES, EXPLORER_BONUS, configure
from contrastive_ucb.agents.ppo.config import PREFIX, PPOConfig, configure_ppo
from contrastive_ucb.agents.simple.config import SimpleConfig, configure_simple
from contrastive_ucb.bonus.config import setting_kind
from contrastive_ucb.core.checks import check_size, hint, kinds_of, typed
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import Event, JsonlListener
from contrastive_ucb.core.runtime import multiplies_bfloat16
from contrastive_ucb.envs.registry import canonical_name, frame_shape_of, make_deep_env
from contrastive_ucb.runs.spec import RunSpec
from contrastive_ucb.runs.store import EVALUATIONS, KEPT

if TYPE_CHECKING:
    from contrastive_ucb.agents.deep.trainer import DeepTrainer
    from contrastive_ucb.envs.frames import FrameEnv

TRAINERS: dict[type, str] = {  # imported on use, because they import torch
    RainbowConfig: "contrastive_ucb.agents.deep.trainer:Trainer",
    SimpleConfig: "contrastive_ucb.agents.simple.trainer:SimpleTrainer",
    PPOConfig: "contrastive_ucb.agents.ppo.trainer:PPOTrainer",
}
LAST = 100  # training episodes whose mean return is in the summary
WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("none", "auto"), None),
}


@dataclass(frozen=True)
class Training:
    """What is trained, where and for how long: everything that determines the result."""

    env: str  # any spelling; stored is the canonical name
    algo: str = "spr-ucb"
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 100_000
    seed: int = 0
    suite: str = "train"

    def __post_init__(self) -> None:
        check_size("steps", self.steps)
        check_size("seed", self.seed, least=0)
        kinds, given = deep_kinds(), self.settings.items()
        # `IntrinsicConfig` gives its settings their types.
        typed_settings = {key: typed(key, value, kinds.get(key, Any)) for key, value in given}
        object.__setattr__(self, "settings", typed_settings)
        object.__setattr__(self, "env", canonical_name(self.env))

    @classmethod
    def of_spec(cls, spec: RunSpec, env: str | None = None) -> Training:
        """The training of a run from its resolved settings, since presets may have changed.

        env  another name of the environment
        """
        config, settings = spec.config, dict(spec.config["agent"])
        bonus = settings.pop("bonus", {})
        settings |= {f"bonus.{name}": value for name, value in bonus.items()}
        if (explorer := settings.pop("explorer", None)) is not None:
            settings |= {"bonus.preset": "explorer", **explorer}
        intrinsic = dict(settings.pop("intrinsic", {}))
        given = intrinsic.pop("settings", {}) | intrinsic
        settings |= {f"{PREFIX}{name}": value for name, value in given.items()}
        name = env or config["env"]
        return cls(name, spec.agent, settings, config["steps"], spec.seed, spec.suite)

    @cached_property
    def frame_shape(self) -> tuple[int, ...]:
        return frame_shape_of(self.env)

    @cached_property
    def config(self) -> RainbowConfig | SimpleConfig | PPOConfig:
        if self.algo not in ALGORITHMS:
            raise ValueError(f"no agent is called {self.algo!r}; {hint(self.algo, ALGORITHMS)}")
        if self.algo == "simple":
            return configure_simple(self.settings, self.frame_shape)
        if self.algo == "ppo":
            return configure_ppo(self.settings)
        return configure(self.algo, self.settings, self.frame_shape, self.env)

    @property
    def bonus(self) -> str:
        """The bonus in words: the given preset, or the closest one, and the differences from it."""
        if isinstance(self.config, PPOConfig):
            return self.config.intrinsic.text
        if isinstance(self.config, SimpleConfig):
            return "none"
        if self.config.explorer is not None:
            return self._explorer_in_words(self.config.explorer)
        if not self.config.bonus.is_on:
            return "none"
        values = asdict(self.config.bonus)
        changes: dict[str, list[str]] = {}
        for name in [name for name in BONUSES if BONUSES[name].bonus.is_on]:
            preset = configure(self.algo, {"bonus.preset": name}, self.frame_shape).bonus
            differs = [key for key, value in asdict(preset).items() if values[key] != value]
            changes[name] = [f"{key}={values[key]}" for key in differs]
        nearest = min(changes, key=lambda name: len(changes[name]))
        return " ".join([nearest, *changes[nearest]])

    def _explorer_in_words(self, explorer: ExplorerConfig) -> str:
        """The preset, and the settings that differ from it; those of a bonus from its defaults."""
        preset = configure(self.algo, {"bonus.preset": "explorer"}, self.frame_shape).explorer
        assert preset is not None
        words, name = ["explorer"], explorer.intrinsic.bonus
        if name != preset.intrinsic.bonus:
            words.append(f"intrinsic.bonus={name}")
            preset = preset.changed({"intrinsic.bonus": name})
        known = preset.flat
        words += [f"{key}={x}" for key, x in explorer.flat.items() if known[key] != x]
        return " ".join(words)

    def remarks(self, steps: int, env: FrameEnv | None = None, device: str = "cpu") -> list[str]:
        """Warnings about a run of so many steps: assumed returns, slow products, no updates."""
        remarks, config = [], self.config
        has_atoms = getattr(config, "distributional", True)
        is_open = has_atoms and getattr(config, "support", ()) is None
        if env and is_open and getattr(env, "guesses_range", False):
            low, high = env.value_range
            remarks.append(
                f"returns of {self.env} are assumed to be between {low:g} and {high:g};"
                " change that with --set support=LOW,HIGH"
            )
        is_rounded = getattr(config, "precision", "float32") == "bfloat16"
        if is_rounded and device == "cpu" and multiplies_bfloat16() is False:
            remarks.append(
                "precision=bfloat16 is several times slower than float32 on this processor, which"
                " has neither AVX-512 BF16 nor AMX; leave the setting out, or train on another"
                " machine"
            )
        warm_up = getattr(config, "first_update", 0)
        if steps <= warm_up:
            remarks.append(
                f"{steps} steps do not exceed the warm-up of {warm_up} steps, so nothing is"
                f" learned; use at least {warm_up + 1} steps or a smaller first_update"
            )
        return remarks

    def spec(self) -> RunSpec:
        agent = asdict(self.config)
        if "explorer" in agent:  # left out if there is none, as in runs of earlier versions
            del agent["explorer"]
            if (explorer := getattr(self.config, "explorer", None)) is not None:
                agent["explorer"] = explorer.flat
        config = {"env": self.env, "steps": self.steps, "agent": agent}
        task = re.sub("[^A-Za-z0-9._-]", "-", self.env)
        inputs = {"algo": self.algo, "env": self.env, "length": self.steps}
        inputs["settings"] = dict(self.settings)
        return RunSpec(self.suite, self.algo, task, self.seed, config, inputs)

    def with_seed(self, seed: int) -> Training:
        """The same training with another seed; the configuration is not resolved again."""
        check_size("seed", seed, least=0)
        _ = self.config  # cached before the copy
        other = copy(self)
        object.__setattr__(other, "seed", seed)
        return other

    def trainer(self, device: str = "cpu") -> DeepTrainer:
        """A new trainer with its environment; imports torch."""
        config = self.config
        env = make_deep_env(self.env, seed=self.seed, training=True, rules=config.atari)
        make = resolve_name(TRAINERS[type(config)])
        trainer: DeepTrainer = make(env, config, self.seed, self.steps, device)
        return trainer

    def summary(self, trainer: DeepTrainer) -> dict[str, Any]:
        """The summary of a run so far, without evaluations."""
        if not trainer.returns and not getattr(trainer.env, "has_time_limit", True):
            warnings.warn(
                f"no training episode of {self.env} ended in {trainer.n_steps} steps, and it has no"
                " time limit; if it never terminates, add gymnasium.wrappers.TimeLimit",
                stacklevel=2,
            )
        latest = trainer.returns[-LAST:]
        summary = {
            "algo": self.algo,
            "env": self.env,
            "seed": self.seed,
            "steps": trainer.n_steps,
            "updates": trainer.agent.n_updates,
            "episodes": len(trainer.returns),
            "bonus": self.bonus,
            f"return_of_last_{LAST}": sum(latest) / len(latest) if latest else None,
        }
        if isinstance(self.config, PPOConfig):
            rewarded = sum(score > 0 for score in latest)
            summary[f"success_of_last_{LAST}"] = rewarded / len(latest) if latest else None
        return summary


class DeepSession:
    """A trainer with its evaluations and the files of its replay memory in a run folder.

    Evaluations use their own environments and random streams, so they do not change training.
    """

    def __init__(
        self,
        training: Training,
        trainer: DeepTrainer,
        folder: Path,
        eval_episodes: int,
        say: Callable[[str], None],
    ):
        from contrastive_ucb.data.replay import ReplayFiles
        from contrastive_ucb.evaluation.rollouts import evaluation_steps, n_evaluations

        self.training, self.trainer = training, trainer
        self.eval_episodes, self.say = eval_episodes, say
        self.points = evaluation_steps(training.steps, n_evaluations(training.env))
        self.files = ReplayFiles(folder / "replay")
        # Replay files of the checkpoints that are kept
        self.pieces: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.eval_log = folder / EVALUATIONS
        self.evaluations: list[dict[str, Any]] = []  # the lines of eval.jsonl
        self.mark: dict[str, Any] = {"offset": 0}  # of eval.jsonl
        self.idle = 0.0  # seconds of evaluations between steps

    @property
    def step(self) -> int:
        """Environment steps so far."""
        return self.trainer.n_steps

    @property
    def is_complete(self) -> bool:
        """Whether the state can be saved after the environment failed."""
        return self.trainer.is_complete

    @property
    def position(self) -> int:
        """Steps, and updates between two steps."""
        return self.trainer.position

    @property
    def marks(self) -> dict[str, dict[str, Any]]:
        """The marks of files besides the metrics, by name."""
        return {EVALUATIONS: self.mark}

    def events(self) -> Iterator[Event]:
        """The events of the trainer; evaluations take place between them."""
        with closing(JsonlListener(self.eval_log, self.mark)) as log:
            self.mark = log.sync()  # drops what was written after the checkpoint
        lines = self.eval_log.read_text(encoding="utf-8").splitlines()
        self.evaluations = [json.loads(line) for line in lines]
        for line in self.evaluations:
            if line["episodes"] != self.eval_episodes:
                raise UserError(
                    f"step {line['step']} was evaluated with {line['episodes']} episodes, not"
                    f" {self.eval_episodes}; resume the run with --eval-episodes {line['episodes']}"
                )
        for point in self.points:
            yield from self.trainer.run(point)
            if point != self.training.steps:  # the final weights are saved before
                began = time.monotonic()
                self.evaluate(point)
                self.idle += time.monotonic() - began

    def evaluate(self, point: int) -> None:
        """Evaluate the present weights at step `point`, unless eval.jsonl has the result already.

        Evaluations are numbered from the last to the first, so that the final one plays the same
        episodes as `cucb eval`.
        """
        from contrastive_ucb.evaluation.rollouts import digest, evaluate

        if any(line["step"] == point for line in self.evaluations):
            return
        scores = evaluate(
            self.trainer.agent,
            self.training.env,
            self.training.seed,
            self.eval_episodes,
            self.trainer.config.eval_epsilon,
            len(self.points) - 1 - self.points.index(point),
            self.trainer.config.atari,
        )
        result = {**digest(scores), "scores": scores.tolist()}
        self.evaluations.append({"step": point, **result})
        with closing(JsonlListener(self.eval_log, self.mark)) as log:
            log.write(point, result)
            self.mark = log.sync()

    def state_of(self, seed: int) -> dict[str, Any]:
        """The state for the checkpoint; new entries of the replay memory are written to files."""
        self.trainer.agent.check_finite()  # checkpoints contain finite weights only
        self._prune()
        replay = self.files.save(self.trainer.replay)
        self.pieces.append({"pieces": replay["pieces"]})
        return {"trainer": self.trainer.state_dict(), "replay": replay, "evaluations": self.mark}

    def _prune(self) -> None:
        """Remove replay files to which no checkpoint refers."""
        if len(self.pieces) == KEPT:  # otherwise there may be a checkpoint that is not among them
            self.files.prune(self.pieces)

    def check(self, state: dict[str, Any]) -> None:
        """Raise an error if files of the replay memory to which the state refers are damaged."""
        for piece in state["replay"]["pieces"]:
            self.files.read(piece)

    def load_states(self, states: list[dict[str, Any]]) -> None:
        (state,) = states
        self.trainer.load_state_dict(state["trainer"])
        self.files.load(self.trainer.replay, state["replay"])
        self.pieces.append({"pieces": state["replay"]["pieces"]})
        self.mark = state["evaluations"]

    def summary(self, seed: int) -> dict[str, Any]:
        """Evaluate the final weights and summarize the run."""
        from contrastive_ucb.envs.deepsea import DeepSeaGrid, solved_at
        from contrastive_ucb.evaluation.rollouts import summarize_evaluations

        self.say(f"playing {self.eval_episodes} episodes to evaluate the final weights")
        self.evaluate(self.training.steps)
        self._prune()
        summary = self.training.summary(self.trainer)
        summary |= {"evaluation": summarize_evaluations(self.evaluations)}
        precision = getattr(self.training.config, "precision", "float32")
        if precision != "float32":
            summary["precision"] = precision
        if isinstance(self.trainer.env, DeepSeaGrid):
            summary["solved_at"] = solved_at(self.trainer.returns)
        return summary


@cache
def deep_kinds() -> dict[str, Any]:
    """The type of every setting of the deep agents."""
    bonus = {f"bonus.{name}": kind for name, kind in kinds_of(BonusConfig).items()}
    explorer = {f"explorer.{name}": kind for name, kind in kinds_of(ExplorerConfig).items()}
    agents = {**kinds_of(SimpleConfig), **kinds_of(PPOConfig), **kinds_of(RainbowConfig)}
    return {**agents, "bonus.preset": str, **bonus, **explorer}


def kind_of(key: str, settings: Mapping[str, Any]) -> Any:
    """The type of a setting; that of an intrinsic reward depends on the bonus among `settings`."""
    if key.startswith(PREFIX):
        bonus = settings.get(f"{PREFIX}bonus", EXPLORER_BONUS)
        return setting_kind(key.removeprefix(PREFIX), bonus)
    return deep_kinds().get(key, str)


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as settings; `Training` checks them."""
    settings: dict[str, Any] = {}
    for word in sorted(words, key=lambda word: not word.startswith(f"{PREFIX}bonus=")):
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set {word} has no value; write KEY=VALUE, such as n_step=3")
        kind = kind_of(key, settings)
        is_text = kind is str or get_origin(kind) is Literal
        value: Any = text if is_text else WORDS.get(text.lower(), text)
        if isinstance(value, str) and not is_text:
            with suppress(ValueError, SyntaxError):  # otherwise the text is a wrong value
                value = literal_eval(text)
            if get_origin(kind) is tuple and not isinstance(value, (list, tuple)):
                value = (value,)
        settings[key] = value
    return settings
