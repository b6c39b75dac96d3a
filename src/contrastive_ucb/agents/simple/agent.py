"""SimPLe (Kaiser et al. 2020): a world model learnt from real steps, and PPO inside of it.

The memory of real steps is asked for two things: windows, from which the world model learns
(`model_learner.py`), and frames in which rollouts begin (`dreams.py`). The policy learns from
rollouts alone (`ppo.py`). When which of them is done is up to `training/simple.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.inputs import Inputs
from contrastive_ucb.agents.deep.optim import not_finite
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.agents.simple.model_rollouts import dream
from contrastive_ucb.agents.simple.ppo import PPO, ActorCritic, Experience, gae, standardised
from contrastive_ucb.agents.simple.world_model_training import ModelLearner
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import atoms
from contrastive_ucb.representation.world_model import WorldModel, frame_kind, sample_categorical

STREAMS = ("model", "dream", "ppo")


class Simple:
    """The learner: a world model, and a policy that is learnt in it.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames an observation of the policy
    value_range  smallest and largest return; rewards are foreseen on it unless the configuration
                 has a support
    """

    bonus: None = None  # it explores by its policy alone

    def __init__(
        self,
        config: SimpleConfig,
        frame_shape: tuple[int, ...],
        stack: int,
        n_actions: int,
        value_range: tuple[float, float],
        seed: int,
        device: torch.device | str = "cpu",
    ):
        self.config, self.frame_shape = config, frame_shape
        plain = RainbowConfig(frame_max=config.frame_max, augment=False)
        self.inputs = Inputs(frame_shape, stack, plain, device)
        self.seen = max(config.history, stack)  # frames that the world model looks at
        rng = stream(seed, "weights")
        model = WorldModel(
            frame_shape,
            self.seen,
            n_actions,
            config.reward_atoms,
            rng,
            kind=frame_kind(frame_shape, self.inputs.frame_max),
            frame_max=self.inputs.frame_max,
            width=config.width,
            halvings=config.halvings,
            doublings=config.doublings,
            middle=config.middle,
            n_bits=config.bits,
            hidden=config.model_hidden,
            pull=config.bits_pull,
        ).to(device)
        support = atoms(*(config.support or value_range), config.reward_atoms).to(device)
        self.world = ModelLearner(model, support, config)
        self.ppo = PPO(ActorCritic(self.inputs.shape, n_actions, config, rng).to(device), config)
        self.streams = {name: stream(seed, name) for name in STREAMS}

    @property
    def n_updates(self) -> int:
        """Of the world model and of the policy."""
        return self.world.n_updates + self.ppo.n_updates

    def new_replay(self) -> Replay:
        """An empty memory, whose observations are what the world model looks at."""
        return Replay(
            self.config.replay_capacity,
            self.frame_shape,
            self.inputs.dtype,
            stack=self.seen,
            jumps=self.config.unroll,
        )

    @torch.no_grad()
    def act(self, observation: Frames, uniform: float) -> int:
        """An action drawn from the policy, for what the memory shows (seen * C, ...)."""
        newest = observation[None, -self.inputs.shape[0] :]
        logits, _ = self.ppo.network(self.inputs.plain(newest))
        if not torch.isfinite(logits).all():
            self.check_finite()
            raise ArithmeticError(f"the policy is {logits[0].tolist()}")
        return int(sample_categorical(logits.log_softmax(-1), logits.new_tensor([uniform])))

    @torch.no_grad()
    def best(self, observations: Frames) -> IntArray:
        """The likeliest actions (B,) for observations (B, stack * C, ...), for evaluation."""
        logits, _ = self.ppo.network(self.inputs.plain(observations))
        return np.asarray(logits.argmax(-1).cpu())

    @torch.no_grad()
    def preferences(self, observation: Frames) -> Array:
        """How likely actions are (A,) in one observation, as logarithms moved so that the largest
        is the value of the state."""
        logits, value = self.ppo.network(self.inputs.plain(observation[None]))
        return np.asarray((logits - logits.max() + value)[0].cpu(), dtype=np.float64)

    def update_model(self, replay: Replay) -> dict[str, float]:
        """One update of the world model; the figures of its losses."""
        return self.world.update(replay, self.streams["model"])

    def update_policy(self, replay: Replay) -> dict[str, float]:
        """One round of rollouts in the world model, and PPO on them; the figures of both."""
        config, world = self.config, self.world
        found = dream(
            world.model,
            self.ppo.network,
            world.support,
            replay,
            self.streams["dream"],
            config.rollout_steps,
            config.rollouts,
        )
        advantages = gae(found.rewards, found.values, found.ended, config.discount, config.trace)
        steps = Experience(
            observations=found.observations.flatten(0, 1),
            actions=found.actions.flatten(),
            log_probs=found.log_probs.flatten(),
            advantages=standardised(advantages.flatten()),
            returns=(advantages + found.values[:-1]).flatten(),
        )
        figures = self.ppo.learn(steps, world.model.scaled, self.streams["ppo"])
        figures["charts/dreamt_reward"] = found.rewards.mean().item()
        figures["charts/dreamt_ends"] = found.ended.mean().item()
        return figures

    def check_finite(self) -> None:
        """Stop if a weight is no finite number any more."""
        for name, part in (("world model", self.world.model), ("policy", self.ppo.network)):
            if broken := not_finite(part.state_dict()):
                raise ArithmeticError(
                    f"{broken} of the {name} is not finite after update {self.n_updates}"
                )

    def state_dict(self) -> dict[str, Any]:
        """Copies: what the learner does next leaves them as they are."""
        return {
            "world": self.world.state_dict(),
            "ppo": self.ppo.state_dict(),
            "streams": copy.deepcopy({n: stream_state(one) for n, one in self.streams.items()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.world.load_state_dict(state["world"])
        self.ppo.load_state_dict(state["ppo"])
        self.streams = {name: restore_stream(one) for name, one in state["streams"].items()}
