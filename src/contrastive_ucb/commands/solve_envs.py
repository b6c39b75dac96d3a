"""The environments of `cucb solve`, each with its options."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar, Literal

from contrastive_ucb.envs.gym_observed import check_reward_bounds


@dataclass(frozen=True)
class LowRank:
    """A random low-rank MDP: phi and psi are Dirichlet(.3)."""

    n_states: int = 10
    """S."""
    n_actions: int = 3
    """A."""
    horizon: int = 4
    """H, the steps of an episode."""
    true_rank: int | None = None
    """d of the MDP; by default --rank, or 3. Give both to choose the model's rank wrong."""
    reward_kind: Literal["sparse", "linear"] = "sparse"
    """A few rewards at the last step, or rewards linear in the features."""


@dataclass(frozen=True)
class Lock:
    """A combination lock: one wrong action and the episode is lost; small rewards lead astray."""

    horizon: int = 6
    """H, the digits of the combination."""
    n_actions: int = 10
    """A; one of them is right."""
    n_dead: int = 1
    """Observations that the dead state is spread over; with 20 the bonus is needed."""


@dataclass(frozen=True)
class DeepSea:
    """DeepSea: a treasure behind N steps to the right, each of which costs a little."""

    size: int = 10
    """N: rows, columns and steps."""


@dataclass(frozen=True)
class RiverSwim:
    """RiverSwim: swimming against the current to the better bank."""

    n_states: int = 6
    """Positions in the river."""
    horizon: int = 20
    """H, the steps of an episode."""


@dataclass(frozen=True)
class LowRankGame:
    """A random low-rank zero-sum game: phi and psi are Dirichlet(.3), rewards U[-1,1]."""

    n_states: int = 6
    """S."""
    n_actions: int = 3
    """Actions of the row player, and of the column player unless --n-column-actions says else."""
    n_column_actions: int | None = None
    """Actions of the column player."""
    horizon: int = 3
    """H, the steps of an episode."""
    true_rank: int | None = None
    """d of the game; by default --rank, or 3. Give both to choose the model's rank wrong."""


@dataclass(frozen=True)
class LockGame:
    """A vault with an intruder and a guard: only the right joint action leads further in."""

    horizon: int = 5
    """H, the doors of the vault."""
    n_actions: int = 3
    """Actions of the row player, and of the column player unless --n-column-actions says else."""
    n_column_actions: int | None = None
    """Actions of the column player."""
    n_dead: int = 10
    """Observations that the dead state is spread over."""


@dataclass(frozen=True)
class Continuous:
    """A low-rank MDP on [0, 1], learnt by networks; values and model error by quadrature."""

    default_rank: ClassVar[int] = 4

    n_actions: int = 3
    """A."""
    horizon: int = 4
    """H, the steps of an episode."""
    amplitude: float = 0.5
    """a in 1 + a cos(2 pi j s'), how far the densities are from uniform; below sqrt(d) - 1."""
    true_rank: int | None = None
    """d of the MDP; by default --rank, or 4. Give both to choose the model's rank wrong."""
    nodes: int = 1024
    """Of the quadrature of values and model errors; at least 4 d."""

    def __post_init__(self) -> None:
        if not 0 < self.amplitude < inf:  # what else it must be depends on the rank
            raise ValueError(f"amplitude must be above 0 and at most 1, got {self.amplitude}")


@dataclass(frozen=True)
class RichLock:
    """The lock in rotated noise, learnt by networks; it ends when it is opened."""

    horizon: int = 6
    """H, the digits of the combination."""
    n_actions: int = 10
    """A; one of them is right."""


@dataclass(frozen=True)
class RichLockGame:
    """The vault in rotated noise, learnt by networks; it ends when nobody can be exploited."""

    horizon: int = 4
    """H, the doors of the vault."""
    n_actions: int = 3
    """Actions of the row player, and of the column player unless --n-column-actions says else."""
    n_column_actions: int | None = None
    """Actions of the column player."""


@dataclass(frozen=True)
class Gym:
    """Any Gymnasium environment with Box observations and discrete actions, learnt by networks."""

    id: str = "CartPole-v1"
    """Its name in Gymnasium."""
    horizon: int = 50
    """H, at most its time limit; an episode that ends earlier goes on with rewards of 0."""
    reward_low: float = 0.0
    """The least reward, at most 0; smaller ones count as this. The agent sees it as 0."""
    reward_high: float = 1.0
    """The largest reward, at least 0; larger ones count as this. The agent sees it as 1."""

    def __post_init__(self) -> None:
        check_reward_bounds(self.reward_low, self.reward_high)


@dataclass(frozen=True)
class File:
    """Your own: an .npz with transitions (H,S,A,S) and rewards (H,S,A); a game has (H,S,A,B...)."""

    path: Path | None = None
    """Where the file is; numpy.savez(path, transitions=P, rewards=r) writes one."""


ENVIRONMENTS: dict[str, type] = {
    "lowrank": LowRank,
    "lock": Lock,
    "deepsea": DeepSea,
    "riverswim": RiverSwim,
    "lowrank-game": LowRankGame,
    "lock-game": LockGame,
    "continuous": Continuous,
    "rich-lock": RichLock,
    "rich-lock-game": RichLockGame,
    "gym": Gym,
    "file": File,
}
