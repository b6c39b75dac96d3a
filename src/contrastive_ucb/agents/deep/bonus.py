"""The bonus with the numerics of the published code: float32, an explicit inverse, NaN -> 0.

`EllipticalBonus` is what one should use. This one exists so that the figures of the release can be
compared: with its ridge of 1e-5, a float32 sum loses the ridge after some thousand features, the
inverse gets negative eigenvalues, and the square root of what comes out of it is not a number. The
release makes such a bonus 0, and so does this class; nothing else in the package hides a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.deep.network import Network
from contrastive_ucb.bonus.online import EllipticalBonus
from contrastive_ucb.core.arrays import IntArray
from contrastive_ucb.data.history import Frames
from contrastive_ucb.data.replay import Batch, Replay
from contrastive_ucb.planning.categorical import take_actions


class PublishedBonus:
    """scale * sqrt(phi' inv(Sigma) phi) in float32, with the methods of `EllipticalBonus`.

    dim     d, the size of a feature
    blocks  how many actions have a block of their own; 1 where features know the action
    """

    def __init__(self, dim: int, scale: float = 1.0, ridge: float = 1e-5, blocks: int = 1):
        self.dim, self.scale, self.ridge = dim, scale, ridge
        self.sigma = self._empty(blocks)
        self._inverse: Tensor | None = None

    @property
    def blocks(self) -> int:
        return len(self.sigma)

    def observe(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Sigma += weight * sum phi phi'.   features (..., d), block (...) their actions"""
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        if not torch.isfinite(rows).all():
            raise ArithmeticError("the features have a NaN or infinite entry")
        at = self._block(block, len(rows))
        for action in range(self.blocks):
            own = rows[at == action]
            self.sigma[action] += weight * (own.mT @ own)
        self._inverse = None

    def __call__(self, features: Tensor, block: Tensor | None = None) -> Tensor:
        """(..., d) -> (...)"""
        widths = self.of_all(features).flatten(0, -2)  # (n, blocks)
        return widths.gather(1, self._block(block, len(widths))[:, None]).view(features.shape[:-1])

    def of_all(self, features: Tensor) -> Tensor:
        """The bonus of every action, for features without one.   (..., d) -> (..., blocks)"""
        if self._inverse is None:
            self._inverse = torch.linalg.inv_ex(self.sigma).inverse
        rows = features.detach().reshape(-1, self.dim).cpu().float()
        width = ((rows @ self._inverse) * rows).sum(-1).sqrt()  # (blocks, n)
        width = torch.where(width.isnan(), 0.0, width)
        return self.scale * width.mT.reshape(*features.shape[:-1], self.blocks)

    def rebuild(self, features: Tensor, block: Tensor | None = None, weight: float = 1.0) -> None:
        """Forget everything and see these features instead, each as often as `weight` says."""
        self.sigma = self._empty(self.blocks)
        self.observe(features, block, weight)

    def state_dict(self) -> dict[str, Any]:
        return {"sigma": self.sigma.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        sigma = torch.as_tensor(state["sigma"])
        if sigma.shape != self.sigma.shape:
            raise ValueError(
                f"the saved Sigma has shape {tuple(sigma.shape)}; this bonus has "
                f"{tuple(self.sigma.shape)}, make it with the same dim and blocks"
            )
        self.sigma, self._inverse = sigma.clone(), None

    def _block(self, block: Tensor | None, count: int) -> Tensor:
        return torch.zeros(count, dtype=torch.int64) if block is None else block.reshape(-1).cpu()

    def _empty(self, blocks: int) -> Tensor:
        return self.ridge * torch.eye(self.dim).repeat(blocks, 1, 1)


Latents = Callable[[Frames], Tensor]  # observations (n, *shape), as stored, to latents (n, ...)
FEATURE = "feature"  # its name in the replay


class DeepBonus:
    """The bonus of one learner, with features from its network and pairs from its replay."""

    def __init__(self, config: RainbowConfig, network: Network, n_actions: int):
        self.config, self.network = config.bonus, network
        self.n_step, self.discount = config.n_step, config.discount
        self.is_hidden = self.config.feature == "hidden"
        self.is_previous = self.config.action == "previous"
        first = network.head.first.weight
        self.dim = len(first) if self.is_hidden else len(network.support)
        kind = PublishedBonus if self.config.numerics == "published" else EllipticalBonus
        self.counted: EllipticalBonus | PublishedBonus = kind(
            self.dim,
            self.config.scale,
            self.config.ridge,
            blocks=n_actions if self.is_hidden else 1,
        )
        self.window = self._window(config.jumps_ahead)
        self.last_action = 0  # the action before the one to come

    def _window(self, jumps: int) -> int:
        """How many transitions from each drawn one on must be stored, whatever episode's."""
        if self.config.pairs == "window":
            return self.n_step + jumps + 1
        return self.n_step if self.is_previous or self.config.cut == "published" else 0

    @property
    def kept(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What the replay must keep beside each transition.

        Long features are halved: 100,000 of 512 numbers would otherwise be 200 MB. Only bonuses of
        stored steps see the rounding, Sigma does not.
        """
        kind = np.float16 if self.is_hidden else np.float32
        return {} if self.config.pairs == "window" else {FEATURE: ((self.dim,), kind)}

    @torch.no_grad()
    def feature(self, latent: Tensor, actions: Tensor) -> Tensor:
        """phi of pairs.   latent (B, ...), actions (B,) -> (B, d)"""
        if self.is_hidden:
            return self.network.head.hidden(latent, self.config.noisy)
        return take_actions(self._probs(latent), actions)

    @torch.no_grad()
    def of_all(self, latent: Tensor) -> Tensor:
        """The bonus of every action.   (B, ...) -> (B, A)"""
        if self.is_hidden:
            hidden = self.network.head.hidden(latent, self.config.noisy)
            return self.counted.of_all(hidden).to(latent.device)
        return self.counted(self._probs(latent)).to(latent.device)

    def visit(self, latent: Tensor, action: int) -> dict[str, NDArray[np.floating]]:
        """An observation (1, ...) that was acted on: what to store with the transition."""
        actions = torch.tensor([self.last_action if self.is_previous else action])
        self.last_action = action
        feature = self.feature(latent, actions.to(latent.device))
        if self.config.pairs == "visits":
            self.counted.observe(feature, self._block(actions))
        return {FEATURE: self._stored(feature)[0]}

    def of_steps(self, batch: Batch, replay: Replay, latent: Tensor, latents: Latents) -> Tensor:
        """The bonus (B,) that joins each target; pairs that are counted when sampled are counted.

        latent   of s_t (B, ...), whose features are refreshed
        latents  for the windows
        """
        weights = torch.from_numpy(self._step_weights(batch, replay))  # (B, n), or (B, 1)
        if self.config.pairs == "window":
            bonus = self._of_windows(batch, replay, latents)
        else:
            bonus = self._of_stored(batch, replay, latent)
        return (bonus[:, : weights.shape[1]] * weights).sum(-1).to(latent.device)

    def _of_stored(self, batch: Batch, replay: Replay, latent: Tensor) -> Tensor:
        """The bonuses (B, n) of the steps, those of s_t with the feature of now."""
        if self.is_previous:
            actions = torch.from_numpy(replay.window(batch.index, self.n_step).previous)
        else:
            actions = torch.from_numpy(replay.actions(batch.steps))
        feature = self.feature(latent.detach(), actions[:, 0].to(latent.device)).cpu()
        if self.config.pairs == "sampled":
            self.counted.observe(feature, self._block(actions[:, 0]))
        replay.set_extra(FEATURE, batch.index, self._stored(feature))
        stored = torch.from_numpy(replay.extra(FEATURE, batch.steps)).float()  # (B, n, d)
        return self.counted(stored, self._block(actions))

    def _of_windows(self, batch: Batch, replay: Replay, latents: Latents) -> Tensor:
        """The bonuses (B, n) of the steps, after all pairs of the windows are counted."""
        window = replay.window(batch.index, self.window)
        seen, size = window.observations(), len(batch.index)
        if self.config.cut == "published":
            seen = seen[np.arange(size)[:, None], window.shown]
        actions = torch.from_numpy(window.previous if self.is_previous else window.actions)
        latent = latents(seen.reshape(-1, *seen.shape[2:]))
        feature = self.feature(latent, actions.flatten().to(latent.device)).cpu()
        feature = feature.view(size, self.window, -1)  # (B, n + K + 1, d)
        self.counted.observe(feature, self._block(actions))
        n = self.n_step
        return self.counted(feature[:, :n], self._block(actions[:, :n]))

    def _step_weights(self, batch: Batch, replay: Replay) -> NDArray[np.float32]:
        """discount**k where the bonus of step k counts, else 0   (B, n), or (B, 1) of the first."""
        weights = batch.step_weights
        if self.config.cut == "published":
            history = replay.history
            ends = history.at("terminated", batch.index) | history.at("truncated", batch.index)
            powers = self.discount ** np.arange(self.n_step, dtype=np.float32)
            weights = np.where(ends[:, None], np.float32(0), powers)
        if self.config.steps == "later":
            weights = np.where(np.arange(self.n_step) == 0, np.float32(0), weights)
        return weights[:, :1] if self.config.steps == "first" else weights

    def after_update(
        self, n_updates: int, replay: Replay, latents: Latents, rng: np.random.Generator
    ) -> None:
        """Rebuild Sigma now and then from visits, with the features of today."""
        every = self.config.rebuild_every
        if self.config.pairs != "visits" or not every or n_updates % every:
            return
        times = visits(replay)
        seen = spread(times, self.config.rebuild_sample, rng)
        actions = torch.from_numpy(replay.actions(seen))
        latent = latents(replay.observations(seen))
        feature = self.feature(latent, actions.to(latent.device)).cpu()
        replay.set_extra(FEATURE, seen, self._stored(feature))
        self.counted.rebuild(feature, self._block(actions), weight=len(times) / len(seen))

    def state_dict(self) -> dict[str, Any]:
        return {"counted": self.counted.state_dict(), "last_action": self.last_action}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counted.load_state_dict(state["counted"])
        self.last_action = state["last_action"]

    def _probs(self, latent: Tensor) -> Tensor:
        logits: Tensor = self.network.head(latent, self.config.noisy)
        return logits.softmax(-1)

    def _stored(self, feature: Tensor) -> NDArray[np.floating]:
        """Features as the replay keeps them."""
        kind = self.kept[FEATURE][1]
        largest, most = float(feature.abs().max()), float(np.finfo(kind).max)
        if not largest <= most:
            raise ArithmeticError(
                f"a feature of the bonus is {largest:.3g}, and the largest that is kept is "
                f"{most:.3g}; scale the observations down"
            )
        return feature.cpu().numpy().astype(kind)

    def _block(self, actions: Tensor) -> Tensor | None:
        return actions if self.is_hidden else None


def visits(replay: Replay) -> IntArray:
    """The times of all stored transitions whose observation is whole, oldest first.

    Also those that cannot be drawn yet, because their return is still to come: they were visited.
    """
    history = replay.history
    times = np.arange(history.oldest, history.now)
    first_frame = np.maximum(times + 1 - history.stack, history.at("start", times))
    whole: IntArray = times[~history.at("closing", times) & (first_frame >= history.oldest)]
    return whole


def spread(times: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """`count` of the times, one from each of as many equal stretches; all if there are no more."""
    if len(times) <= count:
        return times
    place = (np.arange(count) + rng.random(count)) * (len(times) / count)
    return times[np.minimum(place.astype(np.int64), len(times) - 1)]
