"""What all bonuses of the toolkit share: the protocol, scopes, checks and training.

    bonus = RND(env.observation_space, env.action_space, n_envs=16, seed=0)
    intrinsic = bonus.compute(obs, actions, next_obs)     # (n,), pure
    bonus.observe(obs, actions, next_obs, dones)          # counts, episodes, networks

`bonus.step(...)` does both with one pass through the networks. A bonus is computed before its
transition is counted, so the first visit has the largest bonus.

| scope     | bonus                                                                |
|-----------|----------------------------------------------------------------------|
| lifelong  | novelty compared with all past transitions                           |
| episodic  | novelty compared with the current episode of the same environment    |
| product   | their product                                                        |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastive_ucb.bonus.episodic import Episodes, EpisodicEllipses
from contrastive_ucb.bonus.memory import TransitionMemory, Transitions
from contrastive_ucb.bonus.spaces import ObservationArrays
from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_choice, check_number, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import choose_device

Scope = Literal["lifelong", "episodic", "product"]


class Stateful(Protocol):
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> Any: ...


@dataclass(frozen=True)
class Training:
    """When and how the networks of a bonus are trained.

    Args:
        every: Transitions between two trainings.
        steps: Gradient steps of one training.
        batch_size: Transitions per gradient step.
        learning_rate: Of Adam.
        memory: Number of stored transitions.
    """

    every: int = 2048
    steps: int = 8
    batch_size: int = 256
    learning_rate: float = 3e-3
    memory: int = 8000

    def __post_init__(self) -> None:
        for name in ("every", "steps", "batch_size", "memory"):
            check_size(name, getattr(self, name))
        check_number("learning_rate", self.learning_rate, positive=True, finite=True)


class Bonus(ABC):
    """An intrinsic reward for transitions of several environments, deterministic given its seed.

    A subclass provides `_features` and `_lifelong`, and may override `_count` and `_train`.

    Args:
        observation_space: Of a single environment.
        action_space: Of a single environment.
        n_envs: Number of environments that share the bonus.
        seed: Of weights and of training.
        scope: "lifelong", "episodic" or "product".
        device: Of the networks: "cpu", "cuda", "cuda:1" or "auto". Matrices stay on the CPU in
            float64.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        seed: int = 0,
        scope: Scope = "lifelong",
        device: torch.device | str = "cpu",
    ):
        check_size("n_envs", n_envs)
        check_choice("scope", scope, get_args(Scope))
        self.arrays, self.action_space = ObservationArrays(observation_space), action_space
        self.first_action, self.n_actions, self.action_shape = _actions(action_space)
        self.n_envs, self.seed, self.scope, self.device = n_envs, seed, scope, _device(device)
        self.n_seen = 0
        self.episodes: Episodes | None = None
        self.training: Training | None = None
        self.memory: TransitionMemory | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self.network: nn.Module = nn.Module()
        self.parts: dict[str, Stateful] = {}  # everything with a state

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scope={self.scope!r}, {self.n_seen} transitions seen)"

    @property
    def is_of_pair(self) -> bool:
        """Whether the bonus depends on (s, a) only, and `of_actions` computes it for all a."""
        return False

    # --- What a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _features(self, batch: Transitions) -> Any:
        """What novelty is measured on: usually an array (n, d). Computed once per transition."""

    @abstractmethod
    def _lifelong(self, batch: Transitions, features: Any) -> Array:
        """The lifelong bonus (n,)."""

    def _count(self, batch: Transitions, features: Any) -> None:  # noqa: B027
        """Update lifelong counts."""

    def _loss(self, batch: Transitions) -> Tensor:
        """The loss of the networks on a batch, for bonuses with `_set_up_training`."""
        raise NotImplementedError

    def _trained(self, n_trainings: int) -> None:  # noqa: B027
        """Called after each training."""

    # --- Setup ----------------------------------------------------------------------------------

    def _set_up_episodes(self, dim: int, ridge: float = 0.1) -> None:
        """The episodic part is elliptical in features of `dim` entries, if the scope has one."""
        if self.scope != "lifelong":
            self.episodes = EpisodicEllipses(self.n_envs, dim, ridge)
            self.parts["episodes"] = self.episodes

    def _set_up_training(
        self,
        network: nn.Module,
        training: Training,
        keep: Literal["reservoir", "latest"] = "reservoir",
    ) -> None:
        """Train `network` on stored transitions with `_loss`."""
        self.network, self.training = network.to(self.device), training
        self.memory = TransitionMemory(
            training.memory,
            self.arrays,
            self.action_shape,
            stream(self.seed, f"{type(self).__name__} memory"),
            keep,
        )
        weights = [x for x in network.parameters() if x.requires_grad]
        self.optimizer = torch.optim.Adam(weights, training.learning_rate, fused=True)
        self.parts |= {"network": network, "memory": self.memory, "optimizer": self.optimizer}

    # --- The protocol ---------------------------------------------------------------------------

    @torch.no_grad()
    def compute(
        self, obs: Any, actions: Any, next_obs: Any, env_ids: NDArray[Any] | None = None
    ) -> Array:
        """Compute the bonus of transitions, without changing any state.

        Args:
            obs: Observations (n, ...); a dict of arrays for a Dict space.
            actions: The actions taken, (n,) for Discrete actions.
            next_obs: Observations after the step. At the end of an episode this is its final
                observation, not the one after the reset.
            env_ids: The environment of each row, whose episode counts. Row i belongs to
                environment i by default.

        Returns:
            Bonuses of shape (n,) in float64.
        """
        batch = self._batch(obs, actions, next_obs)
        return self._bonus(batch, self._features(batch), self._env_ids(env_ids, len(batch)))

    @torch.no_grad()
    def lifelong(self, obs: Any, actions: Any, next_obs: Any) -> Array:
        """Compute the lifelong part only, for example of transitions from a replay memory.

        Args:
            obs: As for `compute`.
            actions: As for `compute`.
            next_obs: As for `compute`.

        Returns:
            Bonuses of shape (n,).
        """
        batch = self._batch(obs, actions, next_obs)
        return self._checked(self._lifelong(batch, self._features(batch)))

    @torch.no_grad()
    def episodic(
        self, obs: Any, actions: Any, next_obs: Any, env_ids: NDArray[Any] | None = None
    ) -> Array:
        """Compute the episodic part only, which is 1 if the scope has none.

        Args:
            obs: As for `compute`.
            actions: As for `compute`.
            next_obs: As for `compute`.
            env_ids: As for `compute`.

        Returns:
            Bonuses of shape (n,).
        """
        batch = self._batch(obs, actions, next_obs)
        if self.episodes is None:
            return np.ones(len(batch))
        ids = self._env_ids(env_ids, len(batch))
        return self._checked(self.episodes.compute(self._features(batch), ids))

    def restart(self, env_ids: NDArray[Any] | None = None) -> None:
        """Start new episodes after a reset that no `dones` announced, such as a call of `reset`.

        Args:
            env_ids: The environments, by default all.
        """
        if self.episodes is not None:
            self.episodes.end(np.arange(self.n_envs) if env_ids is None else np.asarray(env_ids))

    @torch.no_grad()
    def observe(
        self,
        obs: Any,
        actions: Any,
        next_obs: Any,
        dones: Any,
        env_ids: NDArray[Any] | None = None,
    ) -> None:
        """Count one step of the environments; train the networks when it is due.

        Args:
            obs: As for `compute`.
            actions: As for `compute`.
            next_obs: As for `compute`.
            dones: Whether the step ended the episode, by termination or truncation, shape (n,).
            env_ids: As for `compute`; each environment at most once.
        """
        batch = self._batch(obs, actions, next_obs)
        ids = self._env_ids(env_ids, len(batch), is_step=True)
        self._observe(batch, self._features(batch), dones, ids)

    @torch.no_grad()
    def step(
        self,
        obs: Any,
        actions: Any,
        next_obs: Any,
        dones: Any,
        env_ids: NDArray[Any] | None = None,
    ) -> Array:
        """Do what `compute` and then `observe` do, with one pass through the networks.

        Args:
            obs: As for `compute`.
            actions: As for `compute`.
            next_obs: As for `compute`.
            dones: As for `observe`.
            env_ids: As for `observe`.

        Returns:
            Bonuses of shape (n,).
        """
        batch = self._batch(obs, actions, next_obs)
        ids = self._env_ids(env_ids, len(batch), is_step=True)
        features = self._features(batch)
        bonus = self._bonus(batch, features, ids)
        self._observe(batch, features, dones, ids)
        return bonus

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of counts, episodes, networks, optimizer and stored transitions.

        Returns:
            A dictionary of tensors, arrays, numbers and text.
        """
        parts = {name: _detached(part, part.state_dict()) for name, part in self.parts.items()}
        return {"kind": type(self).__name__, "n_envs": self.n_envs, "n_seen": self.n_seen, **parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what `state_dict` returned, into a bonus made with the same arguments.

        Args:
            state: The dictionary.

        Raises:
            UserError: It is the state of another bonus.
        """
        names = {"kind", "n_envs", "n_seen", *self.parts}
        if not isinstance(state, Mapping) or state.keys() != names:
            raise UserError(
                f"state must be what state_dict() of this bonus returned, got {state!r:.80};"
                " make the bonus with the same arguments"
            )
        for name, own in (("kind", type(self).__name__), ("n_envs", self.n_envs)):
            if state[name] != own:
                raise UserError(f"the saved bonus has {name} {state[name]}, this one {own}")
        self.n_seen = int(state["n_seen"])
        for name, part in self.parts.items():
            try:
                part.load_state_dict(_detached(part, state[name]))
            except (KeyError, RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise UserError(
                    f"the saved {name} does not fit: {reason:.200}; make the bonus with the same"
                    " arguments"
                ) from error

    # --- Inside ---------------------------------------------------------------------------------

    def _bonus(self, batch: Transitions, features: Any, env_ids: IntArray) -> Array:
        bonus = np.ones(len(batch))
        if self.scope != "episodic":
            bonus = self._lifelong(batch, features)
        if self.episodes is not None:
            bonus = bonus * self.episodes.compute(features, env_ids)
        return self._checked(bonus)

    def _checked(self, bonus: Array) -> Array:
        if not np.isfinite(bonus).all():
            raise ArithmeticError(
                f"the bonus {type(self).__name__} has a NaN or infinite entry; reduce the learning"
                " rate, or check observations and encoder"
            )
        return bonus

    def _observe(self, batch: Transitions, features: Any, dones: Any, env_ids: IntArray) -> None:
        flags = np.asarray(dones)
        if flags.shape != (len(batch),):
            raise UserError(f"dones must have shape ({len(batch)},), got {flags.shape}")
        if len(np.unique(env_ids)) < len(env_ids):
            raise UserError(
                f"env_ids {env_ids.tolist()} repeat an environment; call observe once per step"
            )
        self._count(batch, features)
        if self.episodes is not None:
            self.episodes.observe(features, env_ids)
            self.episodes.end(env_ids[flags.astype(bool)])
        before, self.n_seen = self.n_seen, self.n_seen + len(batch)
        if self.training is not None and self.memory is not None:
            self.memory.add(batch)
            every = self.training.every
            for number in range(before // every + 1, self.n_seen // every + 1):
                self._train()
                self._trained(number)

    @torch.enable_grad()
    def _train(self) -> None:
        assert self.training is not None
        assert self.memory is not None
        assert self.optimizer is not None
        for _ in range(self.training.steps):
            loss = self._loss(self.memory.sample(self.training.batch_size))
            if not torch.isfinite(loss):
                raise ArithmeticError(
                    f"the loss of the bonus {type(self).__name__} is not finite; reduce the"
                    " learning rate, or check observations and encoder"
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def _batch(self, obs: Any, actions: Any, next_obs: Any) -> Transitions:
        given = np.asarray(actions)
        batch = Transitions(self.arrays(obs), given, self.arrays(next_obs))
        n = len(batch.obs[0])
        if given.shape != (shape := (n, *self.action_shape)):
            raise UserError(
                f"actions must have shape {shape}, one row per observation, got {given.shape}"
            )
        if (n_next := len(batch.next_obs[0])) != n:
            raise UserError(f"next_obs must have {n} rows, as obs has, got {n_next}")
        if self.n_actions is None:
            if not np.isfinite(given).all():
                raise UserError("actions have a NaN or infinite entry; check the agent")
            return replace(batch, actions=given.astype(np.float32))
        if not np.issubdtype(given.dtype, np.integer):
            raise UserError(
                f"actions must be integers in {self.action_space}, got {given.dtype}; convert them"
                " with actions.astype(int)"
            )
        indices = given.astype(np.int64) - self.first_action
        if not ((indices >= 0) & (indices < self.n_actions)).all():
            raise UserError(f"actions must be in {self.action_space}, got {given.tolist()!r:.60}")
        return replace(batch, actions=indices)

    def _env_ids(self, env_ids: NDArray[Any] | None, n: int, is_step: bool = False) -> IntArray:
        if env_ids is None:
            if n != self.n_envs and (is_step or self.episodes is not None):
                raise UserError(
                    f"got {n} rows with n_envs={self.n_envs}; pass env_ids, or make the bonus with"
                    f" n_envs={n}"
                )
            return np.arange(n)
        ids = np.asarray(env_ids, np.int64)
        if ids.shape != (n,) or (n and not 0 <= ids.min() <= ids.max() < self.n_envs):
            raise UserError(
                f"env_ids must be {n} numbers in 0..{self.n_envs - 1}, got {ids.tolist()!r:.60};"
                f" make the bonus with n_envs={int(ids.max()) + 1 if ids.size else 1}"
            )
        return ids

    def _needs_discrete(self) -> int:
        """The number of actions, for bonuses with one head or matrix per action."""
        if self.n_actions is None:
            raise UserError(
                f"{type(self).__name__} needs Discrete actions, got {self.action_space}; use a"
                " bonus of the next observation, such as RND or Contrastive(feature='psi'), or list"
                " the actions with gymnasium.wrappers.TransformAction"
            )
        return self.n_actions


def _actions(space: spaces.Space[Any]) -> tuple[int, int | None, tuple[int, ...]]:
    """First action, number of actions (None: continuous) and shape of one action."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.n), ()
    if isinstance(space, spaces.Box):
        return 0, None, space.shape
    raise UserError(
        f"actions of {space} are not supported; use Discrete or Box actions, for example with"
        " gymnasium.wrappers.TransformAction"
    )


def _device(asked: torch.device | str) -> torch.device:
    """The device cpu, cuda or one such as cuda:1; "auto" takes CUDA if it is available."""
    kind, colon, number = str(asked).partition(":")
    chosen = choose_device(kind)
    return torch.device(f"{chosen}{colon}{number}" if chosen == kind else chosen)


def as_array(features: Tensor) -> Array:
    """A tensor as an array in float64 on the CPU."""
    return features.detach().to("cpu", torch.float64).numpy()


def _detached(part: Stateful, state: Any) -> Any:
    """The state as a copy, because networks and optimizers in torch share it with its source."""
    return deepcopy(state) if isinstance(part, nn.Module | torch.optim.Optimizer) else state
