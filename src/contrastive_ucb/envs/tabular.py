"""Any finite episodic MDP given by arrays, as exact arrays and as a Gymnasium environment.

| paper        | here                 | shape            |
|--------------|----------------------|------------------|
| P_h(s'|s,a)  | `kernel`             | Kernel, (H, Z)   |
| r_h(s,a)     | `rewards`            | (H, S, A)        |
| s_1          | `initial`            | (S,)             |

The kernel is a table or a product of factors. Factors are never multiplied out here, because the
table of S=2000, A=10, H=10 takes 3.2 GB. They are kept in the canonical gauge of erratum E3: every
measure has mass 1, so every feature vector is a distribution over the latents.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from contrastive_ucb.arrays import Array, IntArray
from contrastive_ucb.checks import check_size
from contrastive_ucb.envs.kernel import Kernel

TOLERANCE = 1e-6  # a distribution may miss 1 by this much; it is then divided by its sum


class TabularMDP(gymnasium.Env[IntArray, np.int64]):
    """A finite MDP with H steps; it observes (step, state) and terminates after H steps.

    transitions   (H, S, A, S)  P_h(s'|s,a), rows sum to 1; or a Kernel over z = s * A + a
    rewards       (H, S, A)     mean reward r_h(s,a) in [0, 1]
    initial       (S,)          distribution of the first state, or that state; None means state 0
    reward_scale  (H, S, A)     the reward seen is this with probability rewards / reward_scale,
                                else 0; None means that the mean itself is seen
    rank                        d of the factorisation to look for, where somebody knows it
    """

    # Gymnasium declares this an instance variable and yet reads it from the class.
    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    reveals_reward: bool = True  # False: knowing the reward gives the answer away, learn it (E15)
    suggested_alpha: float = 0.3  # size of the practical bonus, gamma = alpha H, that suits it
    solved_gap: float | None = None  # part of V* that a policy may lose and still count as solved

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
        self.rewards = _checked_rewards("rewards", rewards)
        self.horizon, self.n_states, self.n_actions = self.rewards.shape
        self.kernel = _checked_kernel(transitions, self.rewards.shape)
        self.initial = _checked_initial(initial, self.n_states)
        self.reward_scale = _checked_scale(reward_scale, self.rewards)
        measures = self.kernel.measures
        self.rank = measures.shape[-2] if rank is None and measures is not None else rank
        if self.rank is not None:
            check_size("rank", self.rank)
        self.name = name
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'ansi'")
        self.render_mode = render_mode
        self.observation_space = spaces.MultiDiscrete([self.horizon + 1, self.n_states])
        self.action_space = spaces.Discrete(self.n_actions)
        self._step, self._state = self.horizon, 0  # an episode begins with reset()

    @staticmethod
    def from_factors(
        features: ArrayLike,
        measures: ArrayLike,
        rewards: ArrayLike,
        initial: ArrayLike | int | None = None,
        *,
        reward_scale: ArrayLike | None = None,
        name: str = "file",
        render_mode: str | None = None,
    ) -> TabularMDP:
        """The MDP with P_h(s'|s,a) = psi_h(s')' phi_h(s,a); both factors must be non-negative.

        features  phi  (H, S, A, d)
        measures  psi  (H, d, S)     the rest as for the class
        """
        phi = _numbers("features", features, "HSAd")
        psi = _numbers("measures", measures, "HdS")
        kernel = Kernel(phi.reshape(len(phi), -1, phi.shape[-1]), psi)
        if phi.shape[:3] != (shape := np.shape(rewards)):
            raise ValueError(
                f"features has shape {phi.shape}; rewards {shape} asks for {shape}+(d,)"
            )
        return TabularMDP(
            kernel, rewards, initial, reward_scale=reward_scale, name=name, render_mode=render_mode
        )

    @staticmethod
    def load(path: str | Path, *, rank: int | None = None) -> TabularMDP:
        """The MDP in an .npz file: `transitions`, `rewards`, perhaps `initial`, `reward_scale`."""
        arrays = _read_npz(Path(path), ("transitions", "rewards", "initial", "reward_scale"))
        if missing := {"transitions", "rewards"} - arrays.keys():
            names = " and ".join(sorted(missing))
            found = ", ".join(sorted(arrays)) or "nothing"
            raise ValueError(
                f"{path} has no array named {names} (it has {found}); "
                "write it with np.savez(path, transitions=P, rewards=r)"
            )
        return TabularMDP(
            arrays["transitions"],
            arrays["rewards"],
            arrays.get("initial"),
            reward_scale=arrays.get("reward_scale"),
            rank=rank,
        )

    @property
    def transitions(self) -> Array:
        """The table P_h(s'|s,a) (H, S, A, S), multiplied out; only for small problems."""
        return self.kernel.table().reshape(self.horizon, self.n_states, self.n_actions, -1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[IntArray, dict[str, Any]]:
        super().reset(seed=seed)
        self._step, self._state = 0, int(self.np_random.choice(self.n_states, p=self.initial))
        return self._observation(), {}

    def step(self, action: int | np.int64) -> tuple[IntArray, float, bool, bool, dict[str, Any]]:
        if self._step == self.horizon:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() before step()")
        if not self.action_space.contains(np.int64(action)):
            raise ValueError(f"action is {action}; it must be one of 0..{self.n_actions - 1}")
        at = self._step, self._state, int(action)
        pair = self._state * self.n_actions + int(action)
        row = self.kernel.rows(self._step, slice(pair, pair + 1))[0]
        reward = self._draw_reward(at)
        self._step, self._state = self._step + 1, int(self.np_random.choice(self.n_states, p=row))
        return self._observation(), reward, self._step == self.horizon, False, {}

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

    def _observation(self) -> IntArray:
        return np.array([self._step, self._state], dtype=np.int64)

    def _draw_reward(self, at: tuple[int, int, int]) -> float:
        mean = float(self.rewards[at])
        if self.reward_scale is None:
            return mean
        scale = float(self.reward_scale[at])  # u * scale < mean needs no division where scale is 0
        return scale if self.np_random.random() * scale < mean else 0.0


def _numbers(name: str, given: ArrayLike, axes: str) -> Array:
    """`given` as finite float64 with one axis a letter of `axes`, none of them empty."""
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} values; give real numbers")
    shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
    if array.ndim != len(axes):
        raise ValueError(f"{name} has shape {array.shape}; it must have shape {shape}")
    if 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; every axis of {shape} must be at least 1"
        )
    array = array.astype(np.float64)
    _refuse(name, array, ~np.isfinite(array), "every entry must be finite, repair it at the source")
    return array


def _refuse(name: str, array: Array, bad: np.ndarray[Any, np.dtype[np.bool_]], why: str) -> None:
    """Stop at the first bad entry and say which it is."""
    if bad.any():
        at = np.unravel_index(int(bad.argmax()), bad.shape)
        raise ValueError(f"{name}[{','.join(map(str, at))}] is {array[at]:.9g}; {why}")


def _checked_rewards(name: str, given: ArrayLike) -> Array:
    rewards = _numbers(name, given, "HSA")
    outside = (rewards < 0) | (rewards > 1)
    _refuse(name, rewards, outside, "it must lie in [0, 1], shift and scale all of them")
    return rewards


def _checked_scale(given: ArrayLike | None, rewards: Array) -> Array | None:
    if given is None:
        return None
    scale = _checked_rewards("reward_scale", given)
    if scale.shape != rewards.shape:
        raise ValueError(f"reward_scale has shape {scale.shape}; rewards has {rewards.shape}")
    _refuse("reward_scale", scale, scale < rewards, "it must be at least the mean in rewards")
    return scale


def _checked_initial(given: ArrayLike | int | None, n_states: int) -> Array:
    if given is None or np.ndim(given) == 0:
        state = 0 if given is None else np.asarray(given).item()
        if not isinstance(state, int) or not 0 <= state < n_states:
            raise ValueError(f"initial is {state}; a first state must be one of 0..{n_states - 1}")
        return np.asarray(np.eye(1, n_states, state)[0])
    initial = _numbers("initial", given, "S")
    if len(initial) != n_states:
        raise ValueError(f"initial has {len(initial)} entries; rewards has {n_states} states")
    _refuse("initial", initial, initial < 0, "a probability must not be negative")
    if abs(initial.sum() - 1) > TOLERANCE:
        raise ValueError(
            f"initial sums to {initial.sum():.9g}; it must sum to 1, divide it by that"
        )
    return np.asarray(initial / initial.sum())


def _checked_kernel(given: ArrayLike | Kernel, shape: tuple[int, ...]) -> Kernel:
    """The kernel in the canonical gauge, its rows summing to 1 up to rounding.

    With totals_j the mass of psi_j, sum_s' P(s'|z) = sum_j phi_j(z) totals_j: no table is needed.
    """
    n_steps, n_states, n_actions = shape
    if not isinstance(given, Kernel):
        table = _numbers("transitions", given, "HSAS")
        if table.shape != (*shape, n_states):
            raise ValueError(
                f"transitions has shape {table.shape}; "
                f"rewards {shape} asks for {(*shape, n_states)}"
            )
        return Kernel(_normalised("transitions", table).reshape(n_steps, n_states * n_actions, -1))
    if given.features.shape[:-1] != (n_steps, n_states * n_actions):
        raise ValueError(
            f"the kernel's features have shape {given.features.shape}; rewards {shape} asks for "
            f"({n_steps}, {n_states * n_actions}, d)"
        )
    if given.measures is None:
        return _checked_kernel(given.features.reshape(*shape, -1), shape)
    features = _numbers("features", given.features.reshape(*shape, -1), "HSAd")
    measures = _numbers("measures", given.measures, "HdS")
    if measures.shape != (n_steps, features.shape[-1], n_states):
        raise ValueError(
            f"measures has shape {measures.shape}; features {features.shape} and {n_states} states "
            f"ask for {(n_steps, features.shape[-1], n_states)}"
        )
    _refuse("measures", measures, measures < 0, "factors must not be negative, see from_factors")
    totals = measures.sum(-1)  # (H, d)
    features = _normalised("features", features * totals[:, None, None, :])
    measures /= np.where(totals > 0, totals, 1)[..., None]
    return Kernel(features.reshape(n_steps, n_states * n_actions, -1), measures)


def _normalised(name: str, rows: Array) -> Array:
    """Rows (H, S, A, n) of probabilities, divided by their sums once those are close to 1."""
    _refuse(name, rows, rows < 0, f"a probability must not be negative, use np.maximum({name}, 0)")
    sums = rows.sum(-1)
    why = f"P(.|s,a) must sum to 1 within {TOLERANCE:.0e}, divide each row by its sum"
    _refuse(f"sum over s' of {name}", sums, abs(sums - 1) > TOLERANCE, why)
    return np.asarray(rows / sums[..., None])


def _read_npz(path: Path, names: Collection[str]) -> dict[str, Array]:
    """The arrays of these names in an .npz file; nothing is ever unpickled."""
    if not path.is_file():
        raise ValueError(
            f"no file at {path}; write one with np.savez(path, transitions=P, rewards=r)"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            if unknown := set(archive.files) - set(names):
                raise ValueError(f"it has an array {min(unknown)!r}, not one of {', '.join(names)}")
            return {name: archive[name] for name in archive.files if name in names}
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not a readable .npz file of plain arrays ({error}); "
            "write it with np.savez(path, transitions=P, rewards=r)"
        ) from error
