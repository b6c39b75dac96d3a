"""Rainbow (Hessel et al. 2018) with every part a setting, plus SPR, CURL and the UCB bonus.

| symbol        | here                | shape            |                                       |
|---------------|---------------------|------------------|---------------------------------------|
| s_t           | `now`               | (B, *shape)      | stacks of frames                      |
| s_{t+k}, s_{t+n} | `later`          | (B K + B, *shape)| K of each sample, then all bootstraps |
| z_t           | `latent`            | (B, *latent)     | output of the encoder                 |
| p(s_t, a_t)   | `log_probs`         | (B, N)           | their logarithms                      |
| Tz, m         | `target`            | (B, N)           | projected n-step target               |
| y^, y~        | `predictions`, `targets` | (K, B, P)   | SPR                                   |
| b             | `bonus`             | (B,)             | added to the target                   |

The order of one update:

1. The target network evaluates s_{t+n}, with the noise of the previous update.
2. The bonus is computed, also with the noise of the previous update (if its features are noisy).
3. New noise is drawn, which is used until the next update, also for acting.
4. Double DQN (van Hasselt et al. 2016): the online network selects the next action, with the new
   noise and, if images are augmented, its own augmentation of s_{t+n}.
5. Losses, the optimizer step, new priorities.

With `target_every=1` the target network always equals the online network, and there is no second
network; steps 1 and 4 then differ in noise and augmentation only. Before the first update every
greedy action draws new noise, because a single draw would be one deterministic policy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.agents.deep.bonus import DeepBonus
from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.explorer import Explorer
from contrastive_ucb.agents.deep.network import (
    Inputs,
    Network,
    error_location,
    gradient_step,
    not_finite,
)
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.random_streams import restore_stream, stream, stream_state
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Batch, Replay
from contrastive_ucb.planning.categorical import (
    cross_entropy,
    expected_value,
    huber,
    kl_priority,
    project_categorical,
    take_actions,
    td_priority,
    td_target,
)
from contrastive_ucb.representation.heads import DuelingHead
from contrastive_ucb.representation.spr import spr_loss

STREAMS = ("noise", "augment", "rebuild")
PRIORITY_FLOOR = 1e-6  # of target probabilities in the priorities of SPR's code


class Rainbow:
    """The learner: selects actions and learns from batches of a replay memory.

    frame_shape  of one frame, (C, H, W) of uint8 or (dim,) of float32
    stack        frames per observation
    value_range  smallest and largest return: the support of C51 unless `config.support` is set
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
        # SPR's code computes targets with the weights before the last optimizer step.
        has_lag = config.spr_weight > 0 and config.spr_targets == "lagged"
        self.lagged = copy.deepcopy(self._spr_target_parts(self.network)) if has_lag else None
        self.modules: dict[str, nn.Module] = {"network": self.network}  # all that have weights
        if self.target is not self.network:
            self.modules["target"] = self.target
        if self.lagged is not None:
            self.modules["lagged"] = self.lagged
        self.streams = {name: stream(seed, name) for name in STREAMS}
        self.bonus = DeepBonus(config, self.network, n_actions) if config.bonus.is_on else None
        self.explorer: Explorer | None = None
        if config.explorer is not None:
            self.explorer = Explorer(config, config.explorer, self.inputs, n_actions, seed)
        self.optimizer = torch.optim.Adam(
            [x for x in self.network.parameters() if x.requires_grad],
            config.learning_rate,
            eps=config.adam_eps,
            fused=True,
        )
        self.n_updates = 0
        self._sample_noise()

    def new_replay(self) -> Replay:
        """An empty replay memory with the settings of this learner."""
        config = self.config
        parts = [part for part in (self.bonus, self.explorer) if part is not None]
        extras = {name: kind for part in parts for name, kind in part.extras.items()}
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
            new_priority=config.new_priority,
            draws=config.draws,
            extras=extras,
        )

    @torch.no_grad()
    def act(
        self, observation: Frames, forced: int | None = None
    ) -> tuple[int, dict[str, NDArray[np.floating]]]:
        """The greedy action for one observation (*shape), and the arrays to store with it.

        Greedy in Q + bonus if the bonus is optimistic, and in Q + beta (Q_int + b) without noise
        while the explorer acts. A `forced` action replaces the greedy one; the bonus counts it as
        well.
        """
        extras = {} if self.explorer is None else self.explorer.blank
        stores_features = self.bonus is not None and bool(self.bonus.extras)
        if forced is not None and not stores_features:
            return forced, extras  # without a pass through the network
        latent = self.network.encoder(self.inputs.plain(observation[None]))
        action = forced
        if action is None:
            if self.n_updates == 0 or self.config.noise_draws == "per-pass":
                self._sample_noise()
            explores = self.explorer is not None and self.explorer.is_acting
            q = self.network.q_values(latent, noisy=not explores)[0]
            if self.explorer is not None and explores:
                q = q + self.explorer.values(observation)
            if self.bonus is not None and self.config.bonus.optimistic:
                q = q + self.bonus.of_all(latent)[0]
            action = int(self._argmax(q))
        if self.bonus is not None and stores_features:
            extras = extras | self.bonus.visit(latent, action)
        return action, extras

    @torch.no_grad()
    def best(self, observations: Frames) -> IntArray:
        """Greedy actions (B,) for evaluation: without noise and without a bonus."""
        latent = self.network.encoder(self.inputs.plain(observations))
        return np.asarray(self._argmax(self.network.q_values(latent, noisy=False)).cpu())

    @torch.no_grad()
    def values(self, observation: Frames) -> tuple[Array, Array | None]:
        """Q (A,) without noise, and the bonus (A,) if there is one, of one observation (*shape)."""
        latent = self.network.encoder(self.inputs.plain(observation[None]))
        of_actions = [self.network.q_values(latent, noisy=False)]
        if self.bonus is not None:
            of_actions.append(self.bonus.of_all(latent))
        q, *bonus = (np.asarray(x[0].cpu(), dtype=np.float64) for x in of_actions)
        return q, bonus[0] if bonus else None

    def _argmax(self, q: Tensor) -> Tensor:
        """The argmax of Q (..., A); raises ArithmeticError if the maximum is not finite."""
        best = q.max(-1)  # NaN counts as the largest number
        if not torch.isfinite(best.values).all():
            self.check_finite()
            raise ArithmeticError("Q is not finite, but all weights are; check the observation")
        return best.indices

    def update(self, replay: Replay, batch: Batch) -> dict[str, float]:
        """One update; returns its metrics. A NaN raises ArithmeticError and changes no weight."""
        number = self.n_updates + 1
        with error_location(self.network, f"update {number}"):
            metrics = self._update(replay, batch)
            self.n_updates = number
            if self.bonus is not None:
                self.bonus.after_update(number, replay, self._encode, self.streams["rebuild"])
        if self.explorer is not None:
            metrics |= self.explorer.update(replay)
        return metrics

    def _update(self, replay: Replay, batch: Batch) -> dict[str, float]:
        network, config = self.network, self.config
        skipped = int(config.first_update * config.updates_per_step)  # as if from step 0
        if self.target is not network and (skipped + self.n_updates) % config.target_every == 0:
            self.target.load_state_dict(network.state_dict())
        now, later = self.inputs.of_batch(batch, self.streams["augment"])
        latent = network.encoder(now)
        target, ahead, bonus = self._target(replay, batch, later, latent)
        value_losses, priority = self._value_losses(batch, latent, target)
        weights = self._tensor(batch.weights)
        loss = (weights * value_losses).mean()
        parts = {"s_t": now, "s_t+k": later, "z_t": latent, "the target": target, "its loss": loss}
        metrics = {"bonus/mean": bonus.mean().item()} if self.bonus is not None else {}
        metrics["losses/value"] = loss.item()
        if network.prediction is not None:
            parts["the SPR loss"] = spr = self._spr_loss(batch, latent, ahead, weights)
            metrics["losses/spr"] = spr.item()
            loss = loss + config.spr_weight * spr
        if network.curl is not None:
            first, second = self.inputs.crops(batch, self.streams["augment"])
            parts["the CURL loss"] = curl = network.curl(network.encoder, first, second)
            metrics["losses/curl"] = curl.item()
            # CURL's code adds the term to the loss of every sample, before weights and priorities.
            term = config.curl_weight * curl
            loss = loss + weights.mean() * term
            if config.priority == "loss":
                priority = priority + term.detach()
        if not torch.isfinite(loss):
            raise ArithmeticError(f"{not_finite(parts)} has a NaN or infinite entry")
        if self.lagged is not None:
            self.lagged.load_state_dict(self._spr_target_parts(network).state_dict())
        gradient_step(self.optimizer, network, network.groups(config.clip_norm), loss)
        if network.curl is not None:
            network.curl.update_keys(network.encoder, config.curl_momentum)
        replay.update_priorities(batch.index, priority.cpu().numpy().astype(np.float64))
        return metrics

    @torch.no_grad()
    def _target(
        self, replay: Replay, batch: Batch, later: Tensor, latent: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Steps 1 to 4: the target distribution m (B, N), or the target value (B, 1), the latents
        of s_{t+1} .. s_{t+K} (B K, ...), and the bonus (B,).

        later   (B K + B, *shape)  the observations s_{t+1} .. s_{t+K} and s_{t+n}
        latent  (B, ...)           of s_t
        """
        network, config = self.network, self.config
        last = len(later) - len(latent)  # where the bootstrap observations begin
        if self.lagged is None:
            latents = self.target.encoder(later)
            ahead, next_latent = latents[:last], latents[last:]
        else:
            ahead = self.lagged["encoder"](later[:last])
            next_latent = self.target.encoder(later[last:])
        if config.noise_draws == "per-pass":
            self._sample_noise(shared=True)
        next_probs = self.target.probs(self.target.head(next_latent))  # 1. (B, A, N)
        online = next_latent  # z_{t+n} of the online network, if it differs
        if config.double and config.double_view == "own" and self.inputs.augments:
            online = network.encoder(self.inputs.another_view(batch, self.streams["augment"]))
        elif (config.double or config.bonus.optimistic) and self.target is not network:
            online = network.encoder(later[last:])
        bonus, next_bonus = latent.new_zeros(len(latent)), latent.new_zeros(len(latent), 1)
        if self.bonus is not None:  # 2.
            bonus = self.bonus.of_batch(batch, replay, latent, self._encode)
            if config.bonus.optimistic:
                next_bonus = self.bonus.of_all(online)  # (B, A)
        if config.noise_draws == "per-update":
            self._sample_noise()  # 3.
        actions = self._next_actions(next_probs, online, next_bonus)  # 4.
        if config.noise_draws == "per-pass":
            self._sample_noise()
        returns, discounts = self._tensor(batch.returns), self._tensor(batch.discounts)
        chosen = take_actions(next_probs, actions)  # (B, N)
        of_next = next_bonus.expand(next_probs.shape[:2]).gather(1, actions[:, None])[:, 0]
        points = network.support if network.is_distribution else chosen
        points = td_target(returns, discounts, points, bonus + discounts * of_next)
        if network.is_distribution:
            return project_categorical(network.support, points, chosen), ahead, bonus
        return points, ahead, bonus

    def _next_actions(self, next_probs: Tensor, online: Tensor, next_bonus: Tensor) -> Tensor:
        """The actions (B,) to bootstrap from; with `double` the online network selects them.

        next_probs  (B, A, N)  of s_{t+n} by the target network
        online      (B, ...)   z_{t+n} by the online network
        next_bonus  (B, A), or (B, 1) zeros
        """
        if self.config.double:
            q = self.network.q_values(online)
        else:
            q = expected_value(next_probs, self.network.support)
        return (q + next_bonus).argmax(-1)

    def _value_losses(self, batch: Batch, latent: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of C51 (or Huber) and the priority, each (B,)."""
        taken = take_actions(self.network.head(latent), self._tensor(batch.actions[:, 0]))
        if not self.network.is_distribution:
            return huber(target, taken), td_priority(target, taken.detach())
        log_probs = taken.log_softmax(-1)
        losses = cross_entropy(target, log_probs)
        if self.config.priority == "loss":
            return losses, losses.detach()
        floor = PRIORITY_FLOOR if self.config.priority == "clamped-kl" else 0.0
        return losses, kl_priority(target, log_probs.detach(), floor)

    def _spr_loss(self, batch: Batch, latent: Tensor, ahead: Tensor, weights: Tensor) -> Tensor:
        """latent z_t (B, ...); ahead z_{t+1} .. z_{t+K} (B K, ...), grouped by sample."""
        assert self.network.prediction is not None
        actions = self._tensor(batch.actions[:, : self.config.jumps])
        predictions = self.network.prediction(latent, actions, self.network.head)
        head = self.target.head if self.lagged is None else self.lagged["head"]
        with torch.no_grad():
            targets = cast(DuelingHead, head).projection(ahead)
        targets = targets.view(*actions.shape, -1).transpose(0, 1)
        return spr_loss(predictions, targets, self._tensor(batch.mask), weights)

    @staticmethod
    def _spr_target_parts(network: Network) -> nn.ModuleDict:
        """The parts of a network that compute the SPR targets."""
        return nn.ModuleDict({"encoder": network.encoder, "head": network.head})

    def check_finite(self) -> None:
        """Raise ArithmeticError if a weight is not finite."""
        networks = (
            [self.network] if self.explorer is None else [self.network, self.explorer.network]
        )
        for network in networks:
            if broken := not_finite(network.state_dict()):
                raise ArithmeticError(f"{broken} is not finite after update {self.n_updates}")

    def _sample_noise(self, shared: bool = False) -> None:
        """New noise for both networks, the same one if `shared`."""
        self.network.head.sample_noise(self.streams["noise"])
        if self.target is not self.network:
            if shared:
                self.target.head.take_noise(self.network.head)
            else:
                self.target.head.sample_noise(self.streams["noise"])

    @torch.no_grad()
    def _encode(self, observations: Frames, chunk: int = 256) -> Tensor:
        """Latents of stored observations (n, *shape), in chunks."""
        parts = [observations[at : at + chunk] for at in range(0, len(observations), chunk)]
        return torch.cat([self.network.encoder(self.inputs.plain(part)) for part in parts])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.inputs.device)

    def state_dict(self) -> dict[str, Any]:
        """A copy, which later updates do not change."""
        state: dict[str, Any] = {
            **{name: dict(module.state_dict()) for name, module in self.modules.items()},
            "optimizer": self.optimizer.state_dict(),
            "bonus": None if self.bonus is None else self.bonus.state_dict(),
            "streams": {name: stream_state(rng) for name, rng in self.streams.items()},
            "n_updates": self.n_updates,
        }
        if self.explorer is not None:
            state["explorer"] = self.explorer.state_dict()
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(state[name])
        self.optimizer.load_state_dict(copy.deepcopy(dict(state["optimizer"])))
        if self.bonus is not None:
            self.bonus.load_state_dict(state["bonus"])
        if self.explorer is not None:
            self.explorer.load_state_dict(state["explorer"])
        self.streams = {name: restore_stream(rng) for name, rng in state["streams"].items()}
        self.n_updates = state["n_updates"]
