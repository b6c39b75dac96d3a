"""Algorithm 2, Contrastive ULCB (l.238-257). It differs from Algorithm 1 in its last lines only.

| paper              | here                             | shape              | line   |
|--------------------|----------------------------------|--------------------|--------|
| V-upper, V-lower   | `bounds.v_upper`, `.v_lower`     | (B, H, S)          | 13, 14 |
| sigma^k            | `bounds.joint`                   | (B, H, S, A1, A2)  | 15     |
| pi^k, nu^k         | `last.row`, `last.column`        | (B, H, S, A1 or A2)| 16     |

The baselines are configurations of this class (`presets.GAME_PRESETS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from contrastive_ucb.agents.finite.config import GameConfig
from contrastive_ucb.agents.finite.learner import Learner
from contrastive_ucb.agents.finite.presets import game_preset
from contrastive_ucb.core.arrays import Array, BoolArray, IntArray
from contrastive_ucb.core.runtime import one_thread
from contrastive_ucb.envs.batch import SeedState, draw
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularGame
from contrastive_ucb.planning.markov_game import Bounds, independent, marginals, plan_bounds
from contrastive_ucb.planning.matrix_game import (
    CCE,
    STAGES,
    deviation_gain,
    solve_cce,
    solve_nash,
)

Game = TabularGame | ObservedEnv
PROFILES = ("last", "best", "drawn")  # the rounds whose policies are stored


@dataclass
class Profile(SeedState):
    """The policies of both players in one round, per seed.

    row          pi            (B, H, S, A1)
    column       nu            (B, H, S, A2)
    certificate  V_up - V_low  (B,)  at the initial state: a bound on the exploitability
    number       k             (B,)  the round, 0 before the first
    """

    saved = ("row", "column", "certificate", "number")

    row: Array
    column: Array
    certificate: Array
    number: IntArray

    @staticmethod
    def uniform(shape: tuple[int, ...], n_actions: tuple[int, int]) -> Profile:
        """The uniform policies before the first round; shape is (B, H, S)."""
        row, column = (np.full((*shape, count), 1 / count) for count in n_actions)
        return Profile(row, column, np.full(shape[0], np.inf), np.zeros(shape[0], dtype=np.int64))

    def updated(self, seeds: BoolArray, other: Profile) -> Profile:
        """A new profile with the policies of `other` for the seeds (B,) that are true."""
        wide = seeds[:, None, None, None]
        return Profile(
            np.where(wide, other.row, self.row),
            np.where(wide, other.column, self.column),
            np.where(seeds, other.certificate, self.certificate),
            np.where(seeds, other.number, self.number),
        )


class ContrastiveULCB(Learner[GameConfig]):
    """Contrastive ULCB (Algorithm 2) on a zero-sum game, finite or with observations.

    Several seeds can be trained in one agent; their results equal those of single agents.

    Args:
        env: A `TabularGame` (or `LowRankGame`, `LockGame`), or a list with one game per seed; or a
            `RichLockGame`, for which networks are trained.
        seed: Seed of the random streams, at least 0; a list if `env` is a list.
        algo: "contrastive-ulcb" or a baseline: rep-ulcb, omni-vi, midpoint-nash, tight-cce,
            no-bonus, uniform.
        negative_distribution: P^- as positive probabilities (S,); None: given by the setting
            `tilt`.
        **settings: Changes to the configuration, such as rank=5 or iota=0.01; the fields of
            `GameConfig`.

    Attributes:
        config: The `GameConfig` in use.
        n_rounds: k, the number of rounds so far.
        best: Policies `row` (B, H, S, A1) and `column` (B, H, S, A2) of the round with the smallest
            `certificate` (B,), for B seeds.
        last: The same of the last round.
        drawn: The same of a uniformly drawn round.

    Raises:
        ValueError: The game, the algorithm or a setting is not valid.

    Examples:
        >>> import contrastive_ucb as cu
        >>> game = cu.LowRankGame(n_states=4, n_actions=2, rank=2, horizon=2)
        >>> agent = cu.ContrastiveULCB(game, seed=0)
        >>> result = agent.learn(rounds=20, progress=False)
        >>> row, column = agent.policies
        >>> cu.exploitability(game, row, column) <= agent.certificate
        True
    """

    kind, n_players = "contrastive-ulcb", 2
    saved = (*Learner.saved, "bounds", *PROFILES, "cce_gap", "cce_stages")
    _streams = ("act",)  # for `predict`

    def __init__(
        self,
        env: Game | Sequence[Game],
        *,
        seed: int | Sequence[int] = 0,
        algo: str = "contrastive-ulcb",
        negative_distribution: Array | None = None,
        **settings: Any,
    ):
        super().__init__(env, seed, algo, game_preset(algo, **settings), negative_distribution)
        n_seeds, horizon, n_states, _ = self.model.shape
        rows, columns = self.model.action_shape
        self.n_actions = rows, columns
        shape = (n_seeds, horizon, n_states)
        joint = self.planned.reshape(*shape, rows, columns)  # line 1: sigma^0
        self.bounds = Bounds(joint, np.zeros(shape), np.zeros(shape))
        self.n_stored = n_states if self.is_tabular else 0  # the states of networks change
        stored = (n_seeds, horizon, self.n_stored)
        self.last, self.best, self.drawn = (
            Profile.uniform(stored, self.n_actions) for _ in PROFILES
        )
        self.cce_gap = np.zeros(n_seeds)  # of this round, the maximum over states and steps
        self.cce_stages = np.zeros((n_seeds, len(STAGES)), dtype=np.int64)  # games by solver stage

    def round(self) -> None:
        """Run one iteration of Algorithm 2, without measurements.

        It costs H trajectories, or a multiple with networks.
        """
        k, model = self.n_rounds + 1, self.model
        with model.transaction(), one_thread():
            model.add(self.sampler.collect(self.roll_in))  # line 4, Algorithm 4
            self.kernel = model.fit()  # lines 6-8
            self.bonus = model.bonus(self.kernel, k)  # lines 9-10
            self.cce_gap = np.zeros(len(self.seeds))
            self.bounds = plan_bounds(
                self.kernel,
                model.rewards(),
                self.bonus,
                self.n_actions,
                self._joint_policy,
                self.ceiling,
            )  # lines 11-15
            self.planned = self.bounds.joint.reshape(model.shape)
            self._store_policies(k)  # line 16
            if not self.is_tabular:
                names = [name for name in PROFILES if getattr(self, name).number[0] == k]
                values = [self.bounds.v_upper, self.bounds.v_lower]
                model.keep(names, values, self.ceiling)  # sigma^k as a function
        self.n_rounds = k

    def _store_policies(self, k: int) -> None:
        """Line 16: pi^k and nu^k, the best round so far, and a uniformly drawn round."""
        width = self.bounds.v_upper[:, 0] - self.bounds.v_lower[:, 0]
        certificate = (width * self.model.initial).sum(-1)
        pair = marginals(self.bounds.joint[:, :, : self.n_stored])
        self.last = Profile(*pair, certificate, np.full(len(self.seeds), k))
        better = certificate <= self.best.certificate  # of equal rounds the later one
        self.best = self.best.updated(better, self.last)
        self.drawn = self.drawn.updated(self._draws(k), self.last)

    def _joint_policy(self, step: int, upper: Array, lower: Array) -> Array:
        """Line 15 at the states planned on; updates `cce_gap` and `cce_stages`.

        returns (B, S, A1, A2)
        """
        guess = self.bounds.joint[:, step] if self.is_tabular else None  # of the previous round
        cce = self._equilibrium(step, self.n_rounds + 1, upper, lower, guess)
        self.cce_gap = np.maximum(self.cce_gap, cce.gap.max(-1))
        self.cce_stages = self.cce_stages + (cce.stage[..., None] == np.arange(len(STAGES))).sum(1)
        return cce.joint

    def _choose(self, step: int, bounds: list[Array], kept: str) -> Array:
        """Line 15 at other observations, with iota_k of the stored round k."""
        upper, lower = (q.reshape(1, -1, *self.n_actions) for q in bounds)
        cce = self._equilibrium(step, int(getattr(self, kept).number[0]), upper, lower)
        return cce.joint.reshape(bounds[0].shape)

    def _equilibrium(
        self, step: int, k: int, upper: Array, lower: Array, guess: Array | None = None
    ) -> CCE:
        """Line 15 of round k for all seeds and states of one step.

        upper, lower, guess  (B, S, A1, A2)

        `solve_cce` raises an error if the gap of a CCE exceeds iota_k. The Nash equilibrium of the
        midpoint need not be a CCE and is not checked.
        """
        for name, q in (("upper", upper), ("lower", lower)):
            if not np.isfinite(q).all():
                raise ArithmeticError(
                    f"Q-{name} has a NaN or infinite entry at step {step} of round {k}"
                )
        if self.config.equilibrium == "midpoint":
            nash = solve_nash((upper + lower) / 2)
            joint = independent(nash.row, nash.column)
            gap = deviation_gain(joint, upper, lower)
            return CCE(joint, gap, np.full(gap.shape, STAGES.index("midpoint")))
        iota = self.config.iota / sqrt(k)
        if self.config.equilibrium == "tight":
            return solve_cce(upper, lower, iota, objective="tight")
        return solve_cce(upper, lower, iota, start=guess)

    @property
    def iota(self) -> float:
        """iota_k = c / sqrt(k) of the next round, as the theorem requires (l.287)."""
        return self.config.iota / sqrt(self.n_rounds + 1)

    @property
    def policies(self) -> tuple[Array, Array]:
        """pi (H, S, A1) and nu (H, S, A2) of the round with the smallest certificate.

        For several seeds see `best`, `last` and `drawn`.
        """
        self._check_table("policies")
        self._check_single_seed("agent.best.row and agent.best.column")
        return self.best.row[0], self.best.column[0]

    @property
    def certificate(self) -> float:
        """V-upper - V-lower of `policies`.

        It bounds the gain of both players from deviating, up to 2H iota_k and the bias of the model
        (l.402-414). The bound does not hold for the Nash equilibrium of the midpoint.
        """
        self._check_single_seed("agent.best.certificate")
        return float(self.best.certificate[0])

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[tuple[IntArray, IntArray], Any]:
        """Choose actions of both players for one observation or a batch of observations.

        Args:
            observation: As returned by the environment: (step, state) of a finite game, or a vector
                (D,); with a leading axis for a batch.
            state: Counts the steps of environments without (step, state): None at the first step,
                then the returned value. A batch may be at different steps, with one number each.
            episode_start: Whether an episode starts, for one observation or each of them; its step
                is 0 whatever `state` says.
            deterministic: Take the most likely actions instead of drawing them; equilibria are
                mixed.

        Returns:
            The actions of the row player and of the column player as a pair, and the next `state`.
        """
        self._check_single_seed("agent.best.row and agent.best.column")
        tables = [self.best.row[0], self.best.column[0]]
        (row, column), state = self._policies_at(observation, state, episode_start, tables, "best")
        if deterministic:
            return (np.asarray(row.argmax(-1)), np.asarray(column.argmax(-1))), state
        uniform = self.streams["act"][0].random((2, *row.shape[:-1]))
        return (draw(row, uniform[0]), draw(column, uniform[1])), state

    def load_states(self, states: list[dict[str, Any]]) -> None:
        super().load_states(states)
        self.planned = self.bounds.joint.reshape(self.model.shape)
