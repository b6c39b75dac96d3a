"""The steps of the proofs: sums against loops, short runs, and changes that break the equations."""

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.facts import rules
from contrastive_ucb.facts.plan import Fact
from contrastive_ucb.facts.proofs import GameSteps, MDPSteps, ahead, expected_sum
from contrastive_ucb.runs.session import Session

H, S, A = 3, 4, 2
SEEDS = [0, 1]


def mdp_session(**settings: object) -> Session:
    envs = [LowRankMDP(S, A, 2, H, seed=seed) for seed in SEEDS]
    return Session(ContrastiveUCB(envs, seed=SEEDS, alpha=0.3, **settings))


def game_session(**settings: object) -> Session:
    envs = [LowRankGame(S, (2, 3), 2, H, seed=seed) for seed in SEEDS]
    return Session(ContrastiveULCB(envs, seed=SEEDS, alpha=0.7, **settings))


@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_loops_over_states(seed: int) -> None:
    random, env = np.random.default_rng(seed), LowRankMDP(S, A, 2, H, seed=seed)
    values, terms = random.random((H, S)), random.normal(size=(H, S, A))
    policy = random.dirichlet(np.ones(A), (H, S))
    table = env.transitions
    d, total = env.initial.copy(), 0.0
    for h in range(H):
        arrived = np.zeros(S)
        for s, a in np.ndindex(S, A):
            mass = d[s] * policy[h, s, a]
            total += mass * terms[h, s, a]
            arrived += mass * table[h, s, a]
            expected = 0.0 if h == H - 1 else table[h, s, a] @ values[h + 1]
            assert ahead(env.kernel, values)[h, s, a] == pytest.approx(expected)
        d = arrived
    assert expected_sum(env.kernel, policy, env.initial, terms) == pytest.approx(total)


def largest(session: Session, probe: MDPSteps | GameSteps, rounds: int) -> dict[str, Array]:
    seen = [probe.measure(played.figures, on_grid=True) for played in session.rounds(rounds)]
    return {name: np.max([one[name] for one in seen], axis=0) for name in seen[0]}


def test_the_steps_of_the_mdp_hold_without_clipping() -> None:
    session = mdp_session(clip="off")
    worst = largest(session, MDPSteps(session), 12)
    assert max(worst["difference_of_best"].max(), worst["difference_of_last"].max()) < 1e-12
    assert worst["planning_excess"].max() < 1e-12
    assert MDPSteps(session).measure({}, on_grid=False) == {}


def test_the_steps_of_the_game_hold_without_clipping() -> None:
    session = game_session(clip="off")
    worst = largest(session, GameSteps(session), 12)
    assert max(worst["difference_of_replies"].max(), worst["difference_of_bounds"].max()) < 1e-12
    assert 0 < worst["gain_over_allowed"].max() <= 1 + 1e-9
    assert GameSteps(session).measure({}, on_grid=False) == {}


def test_clipped_values_break_the_statements_about_them() -> None:
    mdp, game = mdp_session(clip="on"), game_session(clip="on")
    assert largest(mdp, MDPSteps(mdp), 12)["planning_excess"].max() > 1e-3
    worst = largest(game, GameSteps(game), 12)
    assert worst["difference_of_bounds"].max() > 1e-3
    assert worst["gain_over_allowed"].max() > 1.1


def test_another_value_function_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value in the model is that of the bonus and the policy of the same round."""
    from contrastive_ucb.facts import proofs

    right = proofs.policy_value

    def without_last_step(kernel: object, rewards: Array, policy: Array) -> Array:
        rewards = rewards.copy()
        rewards[..., -1, :, :] = 0
        return right(kernel, rewards, policy)

    mdp, game = mdp_session(clip="off"), game_session(clip="off")
    probes = MDPSteps(mdp), GameSteps(game)
    monkeypatch.setattr(proofs, "policy_value", without_last_step)
    assert largest(game, probes[1], 3)["difference_of_replies"].min() > 1e-3
    assert largest(mdp, probes[0], 3)["difference_of_best"].min() > 1e-3


@pytest.mark.parametrize("variable", ["lowrank", "lowrank-game"])
def test_the_learning_target_is_the_minimizer_of_the_loss(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = Fact("F0", limit=1e-4, variable=variable)
    assert rules.learning_target(fact).held
    loss = rules.contrastive_loss
    monkeypatch.setattr(rules, "contrastive_loss", lambda f, p, n: loss(f, p, 1.1 * n))
    outcome = rules.learning_target(fact)
    assert not outcome.held
    assert outcome.value == pytest.approx(1 - 1 / 1.1, rel=1e-3)
