"""What finite MDPs and games share: exact arrays, and an episode that walks through them.

| paper        | here                 | shape            |
|--------------|----------------------|------------------|
| P_h(s'|z)    | `kernel`             | Kernel, (H, Z)   |
| r_h(z)       | `rewards`            | (H, S, *A)       |
| s_1          | `initial`            | (S,)             |

z is the state with the actions of all players as one number, in the order of `rewards[h].ravel()`.
The kernel is a table or a product of factors. Factors are never multiplied out here, because the
table of S=2000, A=10, H=10 takes 3.2 GB. They are kept in the canonical gauge of erratum E3: every
measure has mass 1, so every feature vector is a distribution over the latents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.envs.validate import (
    check_axes,
    checked_initial,
    checked_kernel,
    checked_rewards,
    checked_scale,
)


class FiniteEnv:
    """H steps through S states, with one action axis in `rewards` for each player.

    A subclass names the axes of its rewards and their least value, and steps with its own actions.
    """

    axes: ClassVar[Sequence[str]]
    least_reward: ClassVar[int]

    # Gymnasium declares this an instance variable and yet reads it from the class.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012
    np_random: np.random.Generator
    n_actions: int | tuple[int, int]

    reveals_reward: bool = True  # False: knowing the reward gives the answer away, learn it (E15)
    suggested_alpha: float = 0.3  # size of the practical bonus, gamma = alpha H, that suits it
    # What a solution may lose: a policy of an MDP a part of V*, both players of a game together an
    # exploitability. None: nobody says when this one counts as solved.
    solved_gap: float | None = None

    def __init__(
        self,
        transitions: ArrayLike | Kernel,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        *,
        reward_scale: ArrayLike | None = None,
        rank: int | None = None,
        name: str = "file",
        render_mode: str | None = None,
    ):
        if not isinstance(transitions, Kernel):  # first, since its axes tell the kinds apart
            check_axes("transitions", transitions, (*self.axes, "S"))
        self.rewards = checked_rewards("rewards", rewards, self.axes, self.least_reward)
        self.horizon: int = self.rewards.shape[0]
        self.n_states: int = self.rewards.shape[1]
        self.kernel = checked_kernel(transitions, self.rewards.shape, self.axes)
        self.initial = checked_initial(initial, self.n_states)
        self.reward_scale = checked_scale(reward_scale, self.rewards, self.axes, self.least_reward)
        measures = self.kernel.measures
        self.rank = measures.shape[-2] if rank is None and measures is not None else rank
        if self.rank is not None:
            check_size("rank", self.rank)
        self.name = name
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'ansi'")
        self.render_mode = render_mode
        self._step: int = self.horizon  # an episode begins with reset()
        self._state = 0
        self._open()

    def _open(self) -> None:
        """What a subclass adds to be an environment of its library: actions and spaces."""
        raise NotImplementedError(f"{type(self).__name__} is no environment of any library")

    @property
    def transitions(self) -> Array:
        """The table P_h(s'|z) (H, S, *A, S), multiplied out; only for small problems."""
        return self.kernel.table().reshape(*self.rewards.shape, self.n_states)

    def render(self) -> str | None:
        if self.render_mode is None:
            return None
        return f"step {self._step} of {self.horizon}, state {self._state}"

    def __repr__(self) -> str:
        sizes = (f"{n}={getattr(self, n)}" for n in ("n_states", "n_actions", "horizon", "rank"))
        return f"{type(self).__name__}({', '.join(sizes)})"

    __str__ = __repr__

    def state_dict(self) -> dict[str, Any]:
        """Where the episode is and what the random numbers will be, as JSON values."""
        random = self.np_random.bit_generator.state
        return {"step": self._step, "state": self._state, "random": random}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._state = int(state["step"]), int(state["state"])
        self.np_random.bit_generator.state = state["random"]

    def _begin(self) -> None:
        """Draw the first state of an episode."""
        self._step, self._state = 0, int(self.np_random.choice(self.n_states, p=self.initial))

    def _move(self, actions: Sequence[int]) -> float:
        """Take one action a player; returns the reward and goes to the next state."""
        at = self._step, self._state, *actions
        pair = int(np.ravel_multi_index(at[1:], self.rewards.shape[1:]))
        row = self.kernel.rows(self._step, slice(pair, pair + 1))[0]
        reward = self._draw_reward(at)
        self._step, self._state = self._step + 1, int(self.np_random.choice(self.n_states, p=row))
        return reward

    def _draw_reward(self, at: tuple[int, ...]) -> float:
        mean = float(self.rewards[at])
        if self.reward_scale is None:
            return mean
        scale = float(self.reward_scale[at])
        # Without a division, a scale of 0 and a negative one need no case of their own.
        return scale if self.np_random.random() * abs(scale) < abs(mean) else 0.0

    def _is_over(self) -> bool:
        return self._step == self.horizon

    def _check_running(self) -> None:
        if self._is_over():
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")

    def _observation(self) -> IntArray:
        return np.array([self._step, self._state], dtype=np.int64)

    def _observations(self) -> spaces.MultiDiscrete:
        """The space of all pairs (step, state)."""
        return spaces.MultiDiscrete([self.horizon + 1, self.n_states])


def checked_action(name: str, given: Any, n_actions: int) -> int:
    """`given` as one of the actions 0..n_actions - 1."""
    if np.ndim(given) or given not in range(n_actions):
        raise ValueError(f"{name} is {given}; it must be one of 0..{n_actions - 1}")
    return int(given)
