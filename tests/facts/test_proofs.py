"""The steps of the proofs: sums against loops, short runs, and changes that break the equations."""

from typing import Any

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.facts import rules
from contrastive_ucb.facts.plan import Fact
from contrastive_ucb.facts.proofs import GameSteps, MDPSteps, OneStepBack, ahead, expected_sum
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


@pytest.mark.parametrize("make", [mdp_session, game_session])
def test_one_step_back_equals_loops_over_rounds_and_pairs(make: Any) -> None:
    session = make(ridge=2.0)
    probe = OneStepBack(session)
    agent, batch = session.agent, session.tracker.batch
    policies = [agent.planned.copy()]  # pi^0, ..., pi^k
    n_actions, floor = batch.n_actions, 1 / S
    for played in session.rounds(4):
        seen = probe.measure(played.figures, on_grid=played.step == 4)
        policies.append(agent.planned.copy())
    assert set(seen) == {f"{name}_step_over_bound" for name in ("first", "model", "true")}
    for b in range(2):
        true, model = batch.kernel.table()[b], agent.kernel.table()[b]
        g = np.abs(true - model).sum(-1)  # (H, Z)
        past = [pairs(true, policy[b], batch.initial[b]) for policy in policies]
        rho = sum(past[:-1])  # k rho_h
        tilde = np.repeat(rho.reshape(H, S, -1).sum(-1), n_actions, -1) / n_actions
        breve = np.zeros_like(tilde)
        for h in range(1, H):
            breve[h] = np.repeat(tilde[h - 1] @ true[h - 1], n_actions) / n_actions
        now_model = pairs(model, policies[-1][b], batch.initial[b])
        first = (past[-1][0] @ g[0]) / np.sqrt(n_actions * (tilde[0] @ g[0] ** 2) / 4)
        ratios_model, ratios_true = [], []
        for h in range(1, H):
            zeta = tilde[h - 1] @ g[h - 1] ** 2
            inside = 2 * 4 * zeta + 2 * n_actions * (breve[h] @ g[h] ** 2) + 2 * 4 * 2 / floor**2
            widths = mean_width(agent.kernel.features[b, h - 1], tilde[h - 1], now_model[h - 1])
            ratios_model.append((now_model[h] @ g[h]) / (np.sqrt(inside) * widths))
            inside = n_actions * (tilde[h] @ g[h] ** 2) + 2 * 4 * 2
            widths = mean_width(batch.kernel.features[b, h - 1], rho[h - 1], past[-1][h - 1])
            ratios_true.append((past[-1][h] @ g[h]) / (np.sqrt(inside) * widths))
        assert seen["first_step_over_bound"][b] == pytest.approx(first)
        assert seen["model_step_over_bound"][b] == pytest.approx(max(ratios_model))
        assert seen["true_step_over_bound"][b] == pytest.approx(max(ratios_true))
        assert max(first, *ratios_model, *ratios_true) <= 1


def pairs(table: Array, policy: Array, initial: Array) -> Array:
    """d_h(s, a) by loops; table (H, Z, S), policy (H, S, A) -> (H, Z)"""
    d, found = initial, []
    for h in range(H):
        found.append((d[:, None] * policy[h]).ravel())
        d = found[-1] @ table[h]
    return np.stack(found)


def mean_width(phi: Array, visits: Array, reached: Array) -> float:
    sigma = 2.0 * np.eye(phi.shape[-1])
    for z, row in enumerate(phi):
        sigma += visits[z] * np.outer(row, row)
    inverse = np.linalg.inv(sigma)
    return float(sum(reached[z] * np.sqrt(row @ inverse @ row) for z, row in enumerate(phi)))


def test_one_step_back_continues_after_a_resume() -> None:
    name = ["contrastive_ucb.facts.proofs:OneStepBack"]
    whole, half, resumed = (Session(mdp_session().agent, name) for _ in range(3))
    for session in (whole, half):
        list(session.rounds(5))
    list(whole.rounds(8))
    resumed.load_states([half.state_of(seed) for seed in SEEDS])
    list(resumed.rounds(8))
    for seed in SEEDS:
        assert whole.summary(seed) == resumed.summary(seed)
        np.testing.assert_array_equal(whole.probes[0].visited, resumed.probes[0].visited)


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
