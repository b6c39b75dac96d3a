"""Data of observations: the transitions of one round, and the draws of the densities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.observations import (
    Negatives,
    ObservationData,
    ObservedSampler,
    Transitions,
)
from contrastive_ucb.data.sampler import Density, steps_per_round
from contrastive_ucb.envs import LowRankMDP
from contrastive_ucb.envs.continuous import ContinuousMDP
from contrastive_ucb.envs.finite_twin import one_hot
from contrastive_ucb.envs.rich_lock import RichLock
from contrastive_ucb.planning.value_iteration import occupancy, one_step_later, rolled_in

H, S, A = 3, 4, 2
MDP = LowRankMDP(S, A, 2, H, seed=5)


def policy_table() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(A), (H, S))


def collected(trajectories: int, seed: int = 0) -> list[Transitions]:
    table = policy_table()

    def policy(step: int, seen: np.ndarray) -> np.ndarray:
        return table[step, seen.argmax(-1)]

    return ObservedSampler(one_hot(MDP), trajectories, {"walk": [stream(seed, "walk")]}).collect(
        policy
    )


def test_a_round_has_the_tuples_of_algorithm_3() -> None:
    found = collected(7)
    assert [len(seen.action) for seen in found] == [7, 14, 14]
    assert [int(seen.rolled_in.sum()) for seen in found] == [7, 7, 7]


def test_tuples_have_the_distributions_of_the_paper() -> None:
    """d~ and d-breve, exactly known for a finite MDP, against 20,000 trajectories per step."""
    count = 20_000
    found = collected(count)
    reached = occupancy(MDP.kernel, policy_table(), MDP.initial)
    tilde = rolled_in(reached, A)
    breve = one_step_later(MDP.kernel, tilde)
    for step, seen in enumerate(found):
        pair = seen.observation.argmax(-1) * A + seen.action
        for mask, expected in ((seen.rolled_in, tilde), (~seen.rolled_in, breve)):
            if mask.any():
                shares = np.bincount(pair[mask], minlength=S * A) / count
                np.testing.assert_allclose(shares, expected[step], atol=0.015)
        for z in np.unique(pair):
            after = seen.following[pair == z].mean(0)
            np.testing.assert_allclose(after, MDP.kernel.table()[step, z], atol=0.06)


def test_a_round_costs_what_the_paper_says(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, moved = RichLock(5, 2), 0
    walk_kind = type(lock.begin(1, stream(0, "x")))
    move = walk_kind.move

    def counting(self: object, actions: np.ndarray, random: np.random.Generator) -> np.ndarray:
        nonlocal moved
        moved += len(actions)
        return move(self, actions, random)  # type: ignore[arg-type]

    monkeypatch.setattr(walk_kind, "move", counting)
    sampler = ObservedSampler(lock, 3, {"walk": [stream(0, "x")]})
    sampler.collect(lambda step, seen: np.full((len(seen), 2), 0.5))
    assert moved == 3 * steps_per_round(5)


def test_a_nan_of_the_environment_is_named() -> None:
    env = ContinuousMDP()
    env.weights[1] = np.nan
    agent = ContrastiveUCB(env, trajectories=2, fit_steps=1)
    with pytest.raises(ArithmeticError, match=r"continuous .* NaN.*'reward' at step 1.*round 1"):
        agent.round()


def filled(rounds: int = 3, labeled: bool = False) -> ObservationData:
    data = ObservationData(H, S, labeled=labeled)
    for number in range(rounds):
        for step, seen in enumerate(collected(4, seed=number)):
            data.add(step, seen)
    return data


def test_data_keeps_every_row_while_it_grows() -> None:
    data, rows = filled(5), [collected(4, seed=number) for number in range(5)]
    np.testing.assert_array_equal(data.n, [20, 40, 40])
    for step in range(H):
        expected = np.concatenate([found[step].observation for found in rows])
        np.testing.assert_array_equal(data.observation[step, : data.n[step]], expected)
    again = ObservationData(H, S)
    again.load_state_dict(data.state_dict())
    for part in (data, again):
        part.add(1, rows[0][1])
    for name, table in data.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[name], table)


def test_false_tuples_get_the_draws_and_true_ones_keep_what_followed() -> None:
    data = filled(1, labeled=True)
    label = np.array([True, False, True, False])
    drawn = np.full((4, S), 9.0, dtype=np.float32)
    data.relabel(1, 4, label, drawn)
    np.testing.assert_array_equal(data.label[1, :8], [1, 1, 1, 1, 1, 0, 1, 0])
    np.testing.assert_array_equal(data.contrast[1, 5], drawn[0])
    np.testing.assert_array_equal(data.contrast[1, 4], data.following[1, 4])


def test_densities_draw_what_they_say() -> None:
    data, env, random = filled(), one_hot(MDP), stream(0, "draws")
    seen = Negatives(env, "seen").draw(data, 4000, random)
    for step in range(H):
        expected = data.following[step, : data.n[step]].mean(0)
        np.testing.assert_allclose(seen[step].mean(0), expected, atol=0.04)
    even = Negatives(env, "uniform").draw(data, 4000, random)
    np.testing.assert_allclose(even.mean((0, 1)), 1 / S, atol=0.02)
    mixed = Negatives(env, "mixed", uniform_share=0.5).draw(data, 4000, random)
    np.testing.assert_allclose(mixed.mean(1), (seen.mean(1) + 1 / S) / 2, atol=0.05)
    normal = Negatives(env, "gaussian", center=2.0, scale=3.0).draw(data, 4000, random)
    assert abs(normal.mean() - 2) < 0.1
    assert abs(normal.std() - 3) < 0.1


def test_nodes_of_a_uniform_density_are_even() -> None:
    nodes = Negatives(ContinuousMDP(), "uniform").nodes(ObservationData(2, 1), 4, stream(0, "d"))
    np.testing.assert_allclose(nodes, np.tile([[0.125], [0.375], [0.625], [0.875]], (2, 1, 1)))


def shifted_data() -> ObservationData:
    """The next observation is first .2 and later .8; at step 1 all labels are 1."""
    data = ObservationData(2, 1, labeled=True)
    for step in range(2):
        for place, count in ((0.2, 100), (0.8, 900)):
            even = np.zeros(count, dtype=np.int64)
            rows = np.full((count, 1), place)
            data.add(step, Transitions(rows, even, even.astype(float), rows, even == 0))
            if step == 0:
                false = np.full((count, 1), 0.2, dtype=np.float32)  # as P^- was at first
                data.relabel(step, count, np.arange(count) % 2 == 0, false)
    return data


@pytest.mark.parametrize("kind", ["seen", "mixed"])
def test_stored_labels_use_the_density_of_their_negatives(kind: Density) -> None:
    """Regression: trained with .2 as the only negative, but planned on .2 and .8."""
    negatives = Negatives(ContinuousMDP(horizon=2), kind, uniform_share=0.0)
    nodes = negatives.nodes(shifted_data(), 2000, stream(0, "test"))
    np.testing.assert_allclose(nodes[0], 0.2, rtol=1e-6)
    assert abs((nodes[1] > 0.5).mean() - 0.9) < 0.05  # nothing is stored there, so today's


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 99))
def test_take_equals_indexing(horizon: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    data = ObservationData(horizon, 3)
    for step in range(horizon):
        n = int(random.integers(1, 9))
        after = random.standard_normal((n, 3))
        rows = Transitions(
            after + 1, random.integers(9, size=n), after[:, 0], after, np.ones(n, dtype=bool)
        )
        data.add(step, rows)
    rows_taken = (random.random((horizon, count)) * data.n[:, None]).astype(np.int64)
    steps = np.arange(horizon)[:, None]
    for name in ("observation", "action", "reward"):
        expected = getattr(data, name)[steps, rows_taken]
        np.testing.assert_array_equal(data.take(name, rows_taken), expected)
