"""The one deep learner: Rainbow with every part a setting, SPR, CURL and the UCB bonus.

| symbol        | here                | shape            |                                       |
|---------------|---------------------|------------------|---------------------------------------|
| s_t           | `now`               | (B, *shape)      | stacks of frames                      |
| s_{t+k}, s_{t+n} | `later`          | (B K + B, *shape)| K of each sample, then all bootstraps |
| z_t           | `latent`            | (B, *latent)     | encoder's output                      |
| p(s_t, a_t)   | `log_probs`         | (B, N)           | log of them                           |
| Tz, m         | `target`            | (B, N)           | projected n-step target               |
| y^, y~        | `predictions`, `targets` | (K, B, P)   | SPR                                   |
| b             | `bonus`             | (B,)             | what the bonus adds to the target     |

A target network that is copied after every update is the online network before the next one, so it
takes no second network and no second pass: SPR's targets and the next state's values come out of
one pass over K + 1 observations, without a gradient. A target network that is older has noise of
its own, and the online network then looks at the same augmented s_{t+n} to choose the action.

Noise is drawn once an update, after the bonus is computed: the bonus of a noisy feature and the
actions until the next update see the same noise. Before the first update every greedy action draws
its own: where noise is all that explores, one draw would be one deterministic policy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.deep_bonus import DeepBonus
from contrastive_ucb.agents.deep_config import RainbowConfig
from contrastive_ucb.agents.descent import descend, naming, not_finite
from contrastive_ucb.agents.inputs import Inputs
from contrastive_ucb.agents.network import Network
from contrastive_ucb.arrays import IntArray
from contrastive_ucb.data.batch import Batch
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.planning.categorical import (
    cross_entropy,
    huber,
    kl_priority,
    project_categorical,
    take_actions,
    td_priority,
    td_target,
)
from contrastive_ucb.representation.spr import spr_loss
from contrastive_ucb.training.streams import restore_stream, stream, stream_state

STREAMS = ("noise", "augment", "rebuild")


class Rainbow:
    """The learner: it chooses actions, and learns from batches of a replay memory.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames an observation
    value_range  smallest and largest return, the support of C51 unless the configuration has one
    """

    def __init__(
        self,
        config: RainbowConfig,
        frame_shape: tuple[int, ...],
        stack: int,
        n_actions: int,
        value_range: tuple[float, float],
        seed: int,
        device: torch.device | str = "cpu",
    ):
        self.config, self.frame_shape, self.n_actions = config, frame_shape, n_actions
        self.inputs = Inputs(frame_shape, stack, config, device)
        room = config.bonus.room if config.bonus.is_on else 0.0
        support = config.support or (value_range[0], value_range[1] + room)
        rng = stream(seed, "weights")
        self.network = Network(self.inputs.shape, n_actions, config, support, rng).to(device)
        self.target = self.network if config.target_every == 1 else copy.deepcopy(self.network)
        self.streams = {name: stream(seed, name) for name in STREAMS}
        self.bonus = DeepBonus(config, self.network, n_actions) if config.bonus.is_on else None
        self.optimiser = torch.optim.Adam(
            [one for one in self.network.parameters() if one.requires_grad],
            config.learning_rate,
            eps=config.adam_eps,
            fused=True,
        )
        self.n_updates = 0
        self._sample_noise()

    def new_replay(self) -> Replay:
        """An empty memory with all that this learner needs of one."""
        config = self.config
        return Replay(
            config.replay_capacity,
            self.frame_shape,
            self.inputs.dtype,
            stack=self.inputs.stack,
            n_step=config.n_step,
            discount=config.discount,
            jumps=config.jumps_ahead,
            window=0 if self.bonus is None else self.bonus.window,
            priority_exponent=config.priority_exponent,
            cut=config.cut,
            extras={} if self.bonus is None else self.bonus.kept,
        )

    @torch.no_grad()
    def act(
        self, observation: Frames, forced: int | None = None
    ) -> tuple[int, dict[str, NDArray[np.floating]]]:
        """The greedy action for one observation (*shape), and what to store beside it.

        With an optimistic bonus it is greedy in Q + bonus. A `forced` action is taken as it is; the
        bonus sees it all the same.
        """
        remembers = self.bonus is not None and bool(self.bonus.kept)
        if forced is not None and not remembers:
            return forced, {}
        latent = self.network.encoder(self.inputs.plain(observation[None]))
        action = self._greedy(latent) if forced is None else forced
        return action, self.bonus.visit(latent, action) if self.bonus and remembers else {}

    def _greedy(self, latent: Tensor) -> int:
        if self.n_updates == 0:
            self._sample_noise()
        q = self.network.q_values(latent)[0]
        if self.bonus is not None and self.config.bonus.optimistic:
            q = q + self.bonus.of_all(latent)[0]
        return int(self._largest(q))

    @torch.no_grad()
    def best(self, observations: Frames) -> IntArray:
        """Greedy actions (B,) for evaluation: without noise and without a bonus."""
        latent = self.network.encoder(self.inputs.plain(observations))
        return np.asarray(self._largest(self.network.q_values(latent, noisy=False)).cpu())

    def _largest(self, q: Tensor) -> Tensor:
        """Where Q (..., A) is largest; if that is no number, what broke it is named."""
        best = q.max(-1)  # a NaN is larger than every number here
        if not torch.isfinite(best.values).all():
            self.check_finite()
            raise ArithmeticError("Q is not finite though all weights are: look at the observation")
        return best.indices

    def update(self, replay: Replay, batch: Batch) -> dict[str, float]:
        """One step of gradient descent; the figures of the losses. A NaN anywhere stops it, before
        any weight has changed."""
        number = self.n_updates + 1
        with naming(self.network, f"update {number}"):
            figures = self._update(replay, batch)
            self.n_updates = number
            if self.bonus is not None:
                self.bonus.after_update(number, replay, self._latents, self.streams["rebuild"])
        return figures

    def _update(self, replay: Replay, batch: Batch) -> dict[str, float]:
        network, config = self.network, self.config
        if self.n_updates % config.target_every == 0 and self.target is not network:
            self.target.load_state_dict(network.state_dict())
        now, later = self.inputs.of_batch(batch, self.streams["augment"])
        latent = network.encoder(now)
        with torch.no_grad():
            ahead = self.target.encoder(later)
            last = len(later) - len(now)  # where the bootstraps begin
            online = self._online(later[last:], ahead[last:])
            bonus, next_bonus = self._bonuses(batch, replay, latent, online)
            self._sample_noise()
            target = self._target(batch, ahead[last:], online, bonus, next_bonus)
        value_losses, priority = self._value_losses(batch, latent, target)
        weights = self._tensor(batch.weights)
        loss = (weights * value_losses).mean()
        seen = {"s_t": now, "s_t+k": later, "z_t": latent, "the target": target, "its loss": loss}
        figures = {"bonus/mean": bonus.mean().item()} if self.bonus is not None else {}
        figures["losses/value"] = loss.item()
        if network.prediction is not None:
            seen["the SPR loss"] = spr = self._spr_loss(batch, latent, ahead[:last], weights)
            figures["losses/spr"] = spr.item()
            loss = loss + config.spr_weight * spr
        if network.curl is not None:
            one, other = self.inputs.crops(batch, self.streams["augment"])
            seen["the CURL loss"] = curl = network.curl(network.encoder, one, other)
            figures["losses/curl"] = curl.item()
            loss = loss + config.curl_weight * weights.mean() * curl
        if not torch.isfinite(loss):
            raise ArithmeticError(f"{not_finite(seen)} has a NaN or infinite entry")
        descend(self.optimiser, network, network.groups(config.clip_norm), loss)
        if network.curl is not None:
            network.curl.follow(network.encoder, config.curl_momentum)
        replay.update_priorities(batch.index, priority.cpu().numpy().astype(np.float64))
        return figures

    def _online(self, next_seen: Tensor, next_latent: Tensor) -> Tensor:
        """z_{t+n} by the online network; where nobody asks for it, the target network's will do."""
        asked = self.config.double or self.config.bonus.optimistic
        if self.target is self.network or not asked:
            return next_latent
        return cast(Tensor, self.network.encoder(next_seen))

    def _bonuses(
        self, batch: Batch, replay: Replay, latent: Tensor, online: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the bonus adds to the n rewards (B,), and to the values of the next state (B, A)."""
        none = latent.new_zeros(len(latent))
        if self.bonus is None:
            return none, none[:, None]
        bonus = self.bonus.of_steps(batch, replay, latent, self._latents)
        if not torch.isfinite(bonus).all():
            raise ArithmeticError("the bonus has a NaN or infinite entry")
        return bonus, self.bonus.of_all(online) if self.config.bonus.optimistic else none[:, None]

    def _target(
        self, batch: Batch, next_latent: Tensor, online: Tensor, bonus: Tensor, next_bonus: Tensor
    ) -> Tensor:
        """The target distribution m (B, N) of each sample, or its value (B, 1). With `double` the
        online network chooses the action that the target network values (van Hasselt et al. 2016).

        next_latent, online  z_{t+n} by the target network and by the online network
        next_bonus           (B, A), or (B, 1) zeros
        """
        network = self.network
        returns, discounts = self._tensor(batch.returns), self._tensor(batch.discounts)
        values = self.target.probs(self.target.head(next_latent))  # (B, A, N)
        q = network.q(values)
        if self.config.double and self.target is not network:
            q = network.q_values(online)
        best = (q + next_bonus).argmax(-1)
        bonus = bonus + discounts * next_bonus.expand_as(q).gather(1, best[:, None])[:, 0]
        chosen = take_actions(values, best)  # (B, N)
        if not network.is_distribution:
            return td_target(returns, discounts, chosen, bonus)
        points = td_target(returns, discounts, network.support, bonus)
        return project_categorical(network.support, points, chosen)

    def _value_losses(self, batch: Batch, latent: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of C51 (or Huber) and the priority, each (B,)."""
        taken = take_actions(self.network.head(latent), self._tensor(batch.actions[:, 0]))
        if not self.network.is_distribution:
            return huber(target, taken), td_priority(target, taken.detach())
        log_probs = taken.log_softmax(-1)
        return cross_entropy(target, log_probs), kl_priority(target, log_probs.detach())

    def _spr_loss(self, batch: Batch, latent: Tensor, ahead: Tensor, weights: Tensor) -> Tensor:
        """latent z_t (B, ...); ahead z_{t+1} .. z_{t+K} (B K, ...), those of a sample together."""
        assert self.network.prediction is not None
        actions = self._tensor(batch.actions[:, : self.config.jumps])
        predictions = self.network.prediction(latent, actions, self.network.head)
        with torch.no_grad():
            targets = self.target.head.projection(ahead)
        targets = targets.view(*actions.shape, -1).transpose(0, 1)
        return spr_loss(predictions, targets, self._tensor(batch.mask), weights)

    def check_finite(self) -> None:
        """Stop if a weight is no finite number any more."""
        if broken := not_finite(self.network.state_dict()):
            raise ArithmeticError(f"{broken} is not finite after update {self.n_updates}")

    def _sample_noise(self) -> None:
        self.network.head.sample_noise(self.streams["noise"])
        if self.target is not self.network:
            self.target.head.sample_noise(self.streams["noise"])

    @torch.no_grad()
    def _latents(self, observations: Frames, chunk: int = 256) -> Tensor:
        """Latents of many observations (n, *shape), as they are stored."""
        parts = [observations[at : at + chunk] for at in range(0, len(observations), chunk)]
        return torch.cat([self.network.encoder(self.inputs.plain(part)) for part in parts])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.inputs.device)

    def state_dict(self) -> dict[str, Any]:
        """Copies: what the learner does next leaves them as they are."""
        state = {
            "network": dict(self.network.state_dict()),
            "target": None if self.target is self.network else dict(self.target.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "bonus": None if self.bonus is None else self.bonus.state_dict(),
            "streams": {name: stream_state(one) for name, one in self.streams.items()},
            "n_updates": self.n_updates,
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        if self.target is not self.network:
            self.target.load_state_dict(state["target"])
        self.optimiser.load_state_dict(copy.deepcopy(dict(state["optimiser"])))
        if self.bonus is not None:
            self.bonus.load_state_dict(state["bonus"])
        self.streams = {name: restore_stream(one) for name, one in state["streams"].items()}
        self.n_updates = state["n_updates"]
