"""Probes agree with slow, direct computations."""

from math import log, sqrt

import numpy as np
import pytest

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.contrastive_ulcb import ContrastiveULCB
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.envs import LowRankGame, LowRankMDP
from contrastive_ucb.facts import bounds, probes
from contrastive_ucb.runs.session import Round, Session

SIZES = {"n_states": 4, "n_actions": 2, "rank": 2, "horizon": 3}
FINITE = {"function_class": "product", "class_size": 9, "schedule": "theory", "clip": "off"}


def session_of(n_seeds: int = 2, **settings: object) -> Session:
    envs = [LowRankMDP(**SIZES, seed=seed) for seed in range(n_seeds)]
    return Session(ContrastiveUCB(envs, seed=list(range(n_seeds)), **settings))


def play(session: Session, rounds: int) -> list[Round]:
    return list(session.rounds(rounds))


def test_corrected_potential_is_never_below_two_log_det() -> None:
    """2 log det(Sigma / lambda) is largest for equal eigenvalues, where the two are equal."""
    rank, ridge, k = 3, 0.7, 40
    equal = np.eye(rank) * k / rank
    ratio = np.linalg.slogdet(np.eye(rank) + equal / ridge)[1]
    assert bounds.potential_corrected(k, rank, ridge) == pytest.approx(2 * ratio)
    assert bounds.potential_printed(k, rank, ridge) < 2 * ratio  # erratum E17


def test_optimism_and_its_allowed_bias() -> None:
    session = session_of(alpha=0.3)
    probe = probes.Optimism(session)
    for played in session.rounds(5):
        seen = probe.measure(played.figures, on_grid=True)
        for seed in range(2):
            mdp = session.agent.envs[seed]
            value = session.agent.values[seed, 0] @ mdp.initial
            bias = 3 * sqrt(2 * played.figures["zeta_first"][seed])
            optimal = session.tracker.optimal[seed]
            assert seen["optimism"][seed] == pytest.approx(value - optimal)
            assert seen["allowed_bias"][seed] == pytest.approx(bias)
            assert seen["shortfall"][seed] == pytest.approx(optimal - bias - value)


def test_recovery_compares_with_the_bound_of_its_own_round() -> None:
    session = session_of(**FINITE)
    probe = probes.Recovery(session)
    for played in session.rounds(4):
        seen = probe.measure(played.figures, on_grid=False)
        logarithm = log(2 * played.step * 3 * 9 / 0.05)
        bound = 32 * 2 * logarithm / (0.25**2 * played.step)
        np.testing.assert_allclose(seen["recovery_bound"], bound)
        np.testing.assert_allclose(seen["zeta_over_bound"], played.figures["zeta"] / bound)
        np.testing.assert_allclose(seen["xi_over_bound"], played.figures["xi"] / bound)


def test_the_likelihood_of_labels_equals_loops_over_pairs_and_labels() -> None:
    session = session_of(**FINITE)
    probe, agent = probes.Likelihood(session), session.agent
    for played in session.rounds(7):
        seen = probe.measure(played.figures, on_grid=played.step == 7)
    tracker, model = session.tracker, agent.model.representation
    for seed in range(2):
        worst, table = 0.0, tracker.batch.kernel.table()[seed]
        for h in range(3):
            best = int(np.argmin(model.losses[seed, :, h]))
            f = model.phi[seed, best, h] @ model.psi[seed, best, h]
            total = 0.0
            for z in range(8):
                weight = tracker.rolled_in[seed, h, z] + tracker.one_later[seed, h, z]
                distance = 0.0
                for s in range(4):
                    p, q = table[h, z, s], 0.25
                    fitted = f[z, s] / (1 + f[z, s]) * (p + q) / 2, (p + q) / 2 / (1 + f[z, s])
                    distance += (abs(fitted[0] - p / 2) + abs(fitted[1] - q / 2)) / 2
                total += weight * distance**2
            n = 7 if h == 0 else 14
            worst = max(worst, total / (2 * log(n * 9 / 0.05)))
        assert worst > 0
        assert seen["likelihood_over_bound"][seed] == pytest.approx(worst)


def test_inverse_covariances_are_compared_in_every_direction() -> None:
    session = session_of(**FINITE)
    probe, agent = probes.Inverses(session), session.agent
    for played in session.rounds(9):
        seen = probe.measure(played.figures, on_grid=played.step == 9)
    _, ridge = agent.model.schedule(9)
    for seed in range(2):
        quotients = []
        for h in range(3):
            drawn, expected = ridge * np.eye(2), ridge * np.eye(2)
            for z, phi in enumerate(agent.kernel.features[seed, h]):
                drawn += agent.model.rolled_in[seed, h, z] * np.outer(phi, phi)
                expected += session.tracker.rolled_in[seed, h, z] * np.outer(phi, phi)
            for angle in np.linspace(0, np.pi, 2000):
                x = np.array([np.cos(angle), np.sin(angle)])
                quotients.append((x @ np.linalg.inv(drawn) @ x) / (x @ np.linalg.inv(expected) @ x))
        assert min(quotients) < 1 < max(quotients)
        assert seen["inverse_below"][seed] == pytest.approx(0.6 / min(quotients), rel=1e-4)
        assert seen["inverse_above"][seed] == pytest.approx(max(quotients) / 3, rel=1e-4)


def test_the_drawn_policy_is_compared_with_the_mean_of_all_rounds_also_after_a_resume() -> None:
    probe = "contrastive_ucb.facts.probes:DrawnPolicy"
    envs = [LowRankMDP(**SIZES, seed=seed) for seed in range(2)]
    sessions = [Session(ContrastiveUCB(envs, seed=[0, 1]), [probe]) for _ in range(2)]
    gaps = np.stack([played.figures["gap"] for played in play(sessions[0], 9)])
    play(sessions[1], 4)
    resumed = Session(ContrastiveUCB(envs, seed=[0, 1]), [probe])
    resumed.load_states([sessions[1].state_of(seed) for seed in range(2)])
    play(resumed, 9)
    for session in (sessions[0], resumed):
        for seed in range(2):
            mean = sum(gaps[:, seed]) / 9
            share = sum(gap <= mean for gap in gaps[:, seed]) / 9
            assert 0 < share < 1
            assert session.summary(seed)["drawn_within_average"] == pytest.approx(share)


def test_the_printed_covariance_keeps_the_bonus_at_its_cap() -> None:
    """Erratum E1. With the plain sum the bonus falls below the cap after very many rounds."""
    ends = {}
    for form in ("sum", "averaged"):
        session = session_of(**FINITE, covariance=form)
        probe = probes.Spread(session)
        worst = max(
            float(probe.measure(played.figures, on_grid=False)["bonus_spread"].max())
            for played in session.rounds(30)
        )
        assert worst == 0  # both, in so few rounds
        assert session.agent.bonus.min() == 2 * 3
        ends[form] = probe.totals()
    assert (ends["averaged"]["far_spread"] == 0).all()
    assert np.isnan(ends["averaged"]["leaves_cap_at"]).all()
    assert (ends["sum"]["far_spread"] > 0).all()
    assert (ends["sum"]["leaves_cap_at"] > 1e4).all()


def test_the_future_spread_starts_at_the_current_one() -> None:
    """In the current round, the future spread is that of the current bonus."""
    session = session_of(alpha=0.5, covariance="averaged")
    play(session, 20)
    beta = session.agent.bonus.reshape(2, 3, -1)
    spread = (beta.max(-1) - beta.min(-1)).max(-1)
    assert (spread > 0).all()
    np.testing.assert_allclose(probes.future_spread(session.agent, 20), spread)
    seen = probes.Spread(session).measure({}, on_grid=False)
    np.testing.assert_allclose(seen["bonus_spread"], spread)
    np.testing.assert_allclose(seen["bonus_mean"], beta.mean((1, 2)))


def naive_potential(gains: list[Array], ridge: float) -> tuple[float, float]:
    sigma, spent = ridge * np.eye(len(gains[0])), 0.0
    for gain in gains:
        spent += np.trace(gain @ np.linalg.inv(sigma))
        sigma = sigma + gain
    return spent, 2 * np.log(np.linalg.det(sigma / ridge))


def test_potential_is_that_of_a_plain_loop_over_states() -> None:
    session = session_of()
    probe = probes.Potential(session)
    gains: dict[tuple[int, int], list[Array]] = {}
    for played in session.rounds(6):
        seen = probe.measure(played.figures, on_grid=played.step % 2 == 0)
        for seed, mdp in enumerate(session.agent.envs):
            reached = mdp.initial
            for step in range(3):
                policy = session.agent.policies[seed, step]
                gain = np.zeros((2, 2))
                later = np.zeros(4)
                for state in range(4):
                    for action in range(2):
                        mass = reached[state] * policy[state, action]
                        phi = mdp.kernel.features[step, state * 2 + action]
                        gain += mass * np.outer(phi, phi)
                        later += mass * mdp.transitions[step, state, action]
                gains.setdefault((seed, step), []).append(gain)
                reached = later
        k = played.step
        assert bool(seen) == (k % 2 == 0)
        for seed in range(2) if seen else ():
            sides = [naive_potential(gains[seed, step], 1.0) for step in range(3)]
            assert seen["potential"][seed] == pytest.approx(max(a / b for a, b in sides))
            most = max(b for _, b in sides)
            assert seen["potential_printed"][seed] == pytest.approx(most / (2 * log(1 + k * 2)))


def test_three_models_receive_the_same_data_and_do_not_change_the_agent() -> None:
    plain, watched = session_of(alpha=0.3), session_of(alpha=0.3)
    probe = probes.SameData(watched)
    for alone, beside in zip(plain.rounds(12), watched.rounds(12), strict=True):
        seen = probe.measure(beside.figures, on_grid=True)
        np.testing.assert_array_equal(alone.figures["zeta"], beside.figures["zeta"])
        np.testing.assert_array_equal(seen["zeta_sampled"], beside.figures["zeta"])
    exact = probe.models.others["exact"].counts
    assert exact.positive.sum() > 1.5 * plain.agent.model.representation.counts.positive.sum()
    likelihood = probe.models.others["likelihood"].counts
    np.testing.assert_array_equal(exact.positive, likelihood.positive)
    assert (seen["zeta_likelihood"] != seen["zeta_exact"]).all()
    assert probe.measure(beside.figures, on_grid=False) == {}


def test_a_loaded_session_continues_with_its_probes() -> None:
    """The data of all models, the largest values and the sums of the lemma are saved."""
    names = [
        f"contrastive_ucb.facts.probes:{name}" for name in ("SameData", "Potential", "Optimism")
    ]

    def session() -> Session:
        envs = [LowRankMDP(**SIZES, seed=seed) for seed in range(2)]
        return Session(ContrastiveUCB(envs, seed=[0, 1], alpha=0.3), names)

    whole, first, second = session(), session(), session()
    play(whole, 8)
    play(first, 4)
    second.load_states([first.state_of(seed) for seed in range(2)])
    play(second, 8)
    for seed in range(2):
        assert second.summary(seed) == whole.summary(seed)
        assert {"worst_potential", "worst_zeta_exact", "worst_optimism"} <= whole.summary(
            seed
        ).keys()


def game_session() -> Session:
    games = [LowRankGame(n_states=3, n_actions=(2, 2), rank=2, horizon=2, seed=s) for s in (0, 1)]
    return Session(ContrastiveULCB(games, seed=[0, 1], iota=0.2))


def test_games_are_compared_with_iota_and_nash() -> None:
    session = game_session()
    gap, bracket = probes.CCEGap(session), probes.Bracket(session)
    for played in session.rounds(4):
        over = gap.measure(played.figures, on_grid=False)["cce_over_iota"]
        iota = 0.2 / sqrt(played.step)
        np.testing.assert_allclose(over * iota, played.figures["cce_gap"])
        assert over.max() <= 1
        seen = bracket.measure(played.figures, on_grid=False)
        width = played.figures["upper_value"] - played.figures["lower_value"]
        np.testing.assert_allclose(seen["upper_slack"] + seen["lower_slack"], width)
        held = (seen["upper_slack"] >= -1e-6) & (seen["lower_slack"] >= -1e-6)
        assert held.all()
    assert session.summary(0)["bracket_fraction"] == 1
