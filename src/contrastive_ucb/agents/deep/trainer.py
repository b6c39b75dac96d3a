"""The training loop of the Rainbow agents: one environment step, then the updates that follow it.

`DeepTrainer` holds what all trainers share. `Trainer` trains Rainbow and its variants,
`agents/simple/trainer.py` SimPLe, `agents/ppo/trainer.py` PPO.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.core.events import Event
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.envs.frames import FrameEnv

if TYPE_CHECKING:
    from contrastive_ucb.agents.ppo.config import PPOConfig
    from contrastive_ucb.agents.ppo.trainer import PPOAgent
    from contrastive_ucb.agents.simple.agent import Simple
    from contrastive_ucb.agents.simple.config import SimpleConfig

LOG_EVERY = 100  # steps over which losses and bonuses are averaged before they are logged


class DeepTrainer(ABC):
    """An environment, a learner and its replay memory.

    steps    length of the whole run
    n_steps  steps taken
    returns  raw returns of all episodes so far
    lately   sum and number of the values of each metric since the last log entry
    chosen   the next action with further fields of its transition, or None if it is not chosen yet;
             it is saved, so that a step at which the environment failed is repeated
    """

    learner: type[Any]  # of `agent`
    config: RainbowConfig | SimpleConfig | PPOConfig
    agent: Rainbow | Simple | PPOAgent
    replay: Any  # None if the learner has no replay memory
    is_complete = True  # whether the state can be saved after the environment failed

    def __init__(self, env: FrameEnv, config: Any, seed: int, steps: int, device: str = "cpu"):
        sizes = env.frame_shape, env.stack, env.n_actions, env.value_range
        self.env, self.config, self.steps = env, config, steps
        self.agent = self.learner(config, *sizes, seed, device)
        self.replay, self.policy = self.agent.new_replay(), stream(seed, "policy")
        self.n_steps = 0
        self.returns: list[float] = []
        self.lately: dict[str, tuple[float, int]] = {}
        self.chosen: tuple[int, dict[str, Any]] | None = None

    @property
    def position(self) -> int:
        """Increases with every event: steps, and updates between two steps."""
        return self.n_steps

    @abstractmethod
    def run(self, until: int) -> Iterator[Event]:
        """Continue until `until` steps are taken and the updates that belong to them are done.

        Yields an event after each step or update, empty if nothing is logged. The state may be
        saved between any two events.
        """

    def begin(self) -> None:
        """Start the first episode, unless it has begun."""
        if self.env.episode < 0:
            with self.env.transaction():
                first = self.env.reset()
            self.replay.begin(first)

    @abstractmethod
    def choose(self) -> tuple[int, dict[str, Any]]:
        """The next action and further fields of its transition."""

    def take_step(self) -> dict[str, float]:
        """Choose an action, take it, store the transition, and reset at the end of an episode.

        Returns the values to log. If the environment fails, only `chosen` has changed.
        """
        if self.chosen is None:
            self.chosen = self.choose()
        action, extras = self.chosen
        with self.env.transaction():
            step = self.env.step(action)
            score, length = self.env.raw_return, self.env.n_steps
            first = self.env.reset() if step.terminated or step.truncated else None
        self.chosen = None
        self.replay.add(action, step.reward, step.frame, step.terminated, step.truncated, **extras)
        self.n_steps += 1
        values: dict[str, float] = {}
        if step.episode_over:
            self.returns.append(score)
            values["charts/episodic_return"] = score
            values["charts/episodic_length"] = length
        if first is not None:
            self.replay.begin(first)
        return values

    def note(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of one update to those of the next log entry."""
        for name, value in metrics.items():
            total, count = self.lately.get(name, (0.0, 0))
            self.lately[name] = total + value, count + 1

    def take_means(self) -> dict[str, float]:
        """The means of the metrics since the last call."""
        sums, self.lately = self.lately, {}
        return {name: total / count for name, (total, count) in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything except the frames of the replay memory, which have their own files."""
        chosen = {} if self.chosen is None else {"chosen": self.chosen}
        return {
            "agent": self.agent.state_dict(),
            "env": self.env.state_dict(),
            "policy": stream_state(self.policy),
            "n_steps": self.n_steps,
            "returns": np.array(self.returns, dtype=np.float64),
            "lately": dict(self.lately),
            **chosen,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.env.load_state_dict(state["env"])
        self.policy = restore_stream(state["policy"])
        self.n_steps, self.returns = state["n_steps"], state["returns"].tolist()
        self.lately = {name: (total, count) for name, (total, count) in state["lately"].items()}
        self.chosen = state.get("chosen")


class Trainer(DeepTrainer):
    """The trainer of Rainbow and its variants.

    steps  length of the whole run, for the schedule of the importance weights
    """

    learner = Rainbow
    config: RainbowConfig
    agent: Rainbow

    def __init__(
        self, env: FrameEnv, config: RainbowConfig, seed: int, steps: int, device: str = "cpu"
    ):
        super().__init__(env, config, seed, steps, device)
        self.draws = stream(seed, "replay")
        self.checks_support = config.distributional  # until the first warning

    def run(self, until: int) -> Iterator[Event]:
        """Take steps until there are `until` of them; yields an event after each.

        Logged are the episodes that end and, every 100 steps, the averages of the updates.
        """
        self.begin()
        while self.n_steps < until:
            yield Event(self.n_steps + 1, self._step())

    def epsilon(self) -> float:
        """The fraction of uniform actions at this step."""
        first, last = self.config.epsilon
        since, length = self.n_steps - self.config.first_update, self.config.epsilon_steps
        if since < 0:
            return first
        return last + (first - last) * max(0.0, 1 - since / length) if length else last

    def choose(self) -> tuple[int, dict[str, Any]]:
        if self.agent.explorer is not None:
            history = self.replay.history
            self.agent.explorer.choose_mode(begins=history.first == history.now)
        uniform = self.policy.random(2)
        forced = int(uniform[1] * self.env.n_actions) if uniform[0] < self.epsilon() else None
        return self.agent.act(self.replay.observation(), forced)

    def _step(self) -> dict[str, float]:
        values = self.take_step()
        if self.agent.explorer is not None:
            self.note(self.agent.explorer.observe(self.replay))
        history = self.replay.history
        if self.checks_support and history.first == history.now:  # an episode has ended
            self._check_support()
        since, rate = self.n_steps - self.config.first_update, self.config.updates_per_step
        if since > 0 and self.replay.has_some:
            for _ in range(int(rate * since) - int(rate * (since - 1))):  # rate * since in total
                self.note(self._update())
        if self.lately and (self.n_steps % LOG_EVERY == 0 or self.n_steps == self.steps):
            values |= self.take_means()
            bonus = self.agent.bonus
            if bonus is not None and bonus.config.numerics == "cholesky":
                values["bonus/logdet"] = bonus.counted.log_det
        return values

    def _update(self) -> dict[str, float]:
        (start, end), first = self.config.importance, self.config.first_update
        progress = (self.n_steps - first) / max(1, self.steps - first)
        importance = start + (end - start) * min(1.0, progress)
        batch = self.replay.sample(self.draws.random(self.config.batch_size), importance)
        return self.agent.update(self.replay, batch)

    def _check_support(self) -> None:
        """Warn once if a discounted return of the last episode is outside the support of C51."""
        history, discount = self.replay.history, self.config.discount
        closing = history.now - 1
        first = max(int(history.at("start", np.array(closing))), history.oldest)
        value = low = high = 0.0
        for reward in reversed(history.at("reward", np.arange(first, closing)).tolist()):
            value = reward + discount * value
            low, high = min(low, value), max(high, value)
        least, *_, most = self.agent.network.support.tolist()
        if low < least - 1e-6 or high > most + 1e-6:
            self.checks_support = False
            warnings.warn(
                f"returns of {self.env.name} reach {low:.4g} to {high:.4g}, outside the C51 support"
                f" [{least:g}, {most:g}]; use the setting"
                f" support={min(low, least):.0f},{max(high, most) + 1:.0f}",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"draws": stream_state(self.draws)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.draws = restore_stream(state["draws"])
