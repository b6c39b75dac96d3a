"""Algorithm 1 against an oracle of loops; batches, checkpoints, inputs; a short run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents.neural_play import assert_same_state

from contrastive_ucb.agents.finite.contrastive_ucb import ContrastiveUCB
from contrastive_ucb.agents.finite.presets import PRESETS
from contrastive_ucb.core.arrays import Array
from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.data.sampler import TabularSampler, steps_per_round
from contrastive_ucb.envs import Lock, LowRankMDP, TabularMDP
from contrastive_ucb.envs.kernel import Kernel
from contrastive_ucb.evaluation.exact import suboptimality
from contrastive_ucb.representation import tabular_fit
from contrastive_ucb.runs.session import Session

H, S, A, D = 3, 5, 2, 2

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"algo": name} for name in PRESETS},
    "exact": {"negatives": "exact"},
    "rank 1": {"rank": 1},
    "finite": {"function_class": "finite", "class_size": 5},
    "finite exact": {"function_class": "finite", "class_size": 5, "negatives": "exact"},
    "theory": {"schedule": "theory", "covariance": "averaged"},
    "product": {"function_class": "product", "class_size": 4},
    "learned reward": {"reward": "learned", "tilt": 1.0},
    "linear reward": {"reward": "linear"},
    "sparse": {},
    "sparse exact": {"negatives": "exact"},
    "sparse likelihood": {"algo": "rep-ucb"},
}


def mdp(seed: int = 0) -> LowRankMDP:
    return LowRankMDP(S, A, D, H, seed=seed)


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param.startswith("sparse"):
        monkeypatch.setattr(tabular_fit, "DENSE_CELLS", 0)
    return VARIANTS[request.param]


def play(agent: ContrastiveUCB, n: int) -> ContrastiveUCB:
    for _ in range(n):
        agent.round()
    return agent


def fit_by_loops(
    phi: Array, psi: Array, positive: Array, negative: Array, negatives: Array, config: Any
) -> tuple[Array, Array]:
    """Line 6 for one step, one entry at a time.   phi (Z+1, d), psi (d, S), counts (Z+1, S)"""
    phi, psi = np.maximum(phi, 0.01 * phi.mean()), np.maximum(psi, 0.01 * psi.mean())
    rank, n_states = psi.shape
    rate = [config.pseudo * sum(psi[j] * negatives) for j in range(rank)]
    shape = [rate[j] * phi[-1, j] for j in range(rank)]
    for _ in range(config.sweeps):
        f, new = phi @ psi, phi.copy()
        for z, j in np.ndindex(phi.shape):
            pull = sum(psi[j, s] * positive[z, s] / f[z, s] for s in range(n_states))
            push = sum(
                psi[j, s] * (positive[z, s] + negative[z, s]) / (1 + f[z, s])
                for s in range(n_states)
            )
            new[z, j] = (phi[z, j] * pull + shape[j]) / (push + rate[j])
        phi = new
        f, new = phi @ psi, psi.copy()
        for j, s in np.ndindex(psi.shape):
            prior = config.pseudo * negatives[s]
            pull = sum(phi[z, j] * positive[z, s] / f[z, s] for z in range(len(phi)))
            push = sum(
                phi[z, j] * (positive[z, s] + negative[z, s]) / (1 + f[z, s])
                for z in range(len(phi))
            )
            new[j, s] = (psi[j, s] * pull + prior) / (push + prior)
        psi = new
    return phi, psi


def test_round_equals_an_oracle_of_loops() -> None:
    """Lines 4 to 13 on a tiny MDP, with the same draws of Algorithm 3."""
    n_steps, n_states, n_actions = 2, 3, 2
    tiny = LowRankMDP(n_states, n_actions, 2, n_steps, seed=1, reward="linear")
    agent = ContrastiveUCB(tiny, seed=4, sweeps=3, alpha=0.3)
    assert agent.config.alpha == 0.3
    negatives = np.full(n_states, 1 / n_states)
    streams = {name: [stream(4, name)] for name in ("walk", "label")}
    sampler = TabularSampler(agent.batch, negatives, streams)
    phi, psi = (getattr(agent.model.representation, name)[0].copy() for name in ("phi", "psi"))
    pairs = n_states * n_actions
    positive, negative = np.zeros((2, n_steps, pairs + 1, n_states))
    positive[:, -1] = negative[:, -1] = 0.5 * negatives
    bonus_data: list[list[int]] = [[] for _ in range(n_steps)]  # D~
    policy = np.full((n_steps, n_states, n_actions), 1 / n_actions)
    for _ in range(6):
        tuples = sampler.collect(policy[None])  # line 4
        for i, h in enumerate(tuples.step):
            table = positive if tuples.label[0, i] else negative
            table[h, tuples.pair[0, i], tuples.contrast[0, i]] += 1
            if i < n_steps:
                bonus_data[h].append(int(tuples.pair[0, i]))
        later = np.zeros(n_states)  # line 3
        values, beta = np.zeros((n_steps, n_states)), np.zeros(policy.shape)
        policy = np.zeros_like(policy)
        for h in reversed(range(n_steps)):  # line 5
            phi[h], psi[h] = fit_by_loops(
                phi[h], psi[h], positive[h], negative[h], negatives, agent.config
            )
            measures = psi[h] * negatives  # line 7, with every measure of mass 1 (E3)
            mass = measures.sum(-1)
            features = phi[h, :-1] * mass
            features /= features.sum(-1, keepdims=True)
            kernel = features @ (measures / mass[:, None])  # line 8
            sigma = np.eye(2)
            for z in bonus_data[h]:
                sigma += np.outer(features[z], features[z])  # line 9
            inverse = np.linalg.inv(sigma)
            for s in range(n_states):
                q = []
                for a in range(n_actions):
                    x = features[s * n_actions + a]
                    beta[h, s, a] = min(0.3 * n_steps * np.sqrt(x @ inverse @ x), 2 * n_steps)
                    ahead = sum(kernel[s * n_actions + a, t] * later[t] for t in range(n_states))
                    total = tiny.rewards[h, s, a] + beta[h, s, a] + ahead  # line 11
                    q.append(min(max(total, 0.0), n_steps - h))
                values[h, s] = max(q)  # line 12
                policy[h, s, int(np.argmax(q))] = 1.0  # line 13
            later = values[h]
        agent.round()
        np.testing.assert_allclose(agent.bonus[0], beta, rtol=1e-9)
        np.testing.assert_allclose(agent.values[0], values, rtol=1e-9)
        np.testing.assert_array_equal(agent.policies[0], policy)


def test_batch_of_seeds_equals_separate_runs(variant: dict[str, Any]) -> None:
    seeds = [5, 6, 7]
    together = play(ContrastiveUCB([mdp(s) for s in seeds], seed=seeds, **variant), 12)
    for i, seed in enumerate(seeds):
        alone = play(ContrastiveUCB(mdp(seed), seed=seed, **variant), 12)
        assert_same_state(together, alone, i)


def test_a_run_continues_from_a_checkpoint(variant: dict[str, Any], tmp_path: Path) -> None:
    """2n rounds equal n rounds, save, load, n rounds, bit for bit; seeds are saved one by one."""
    seeds, n = [5, 6], 7

    def fresh() -> ContrastiveUCB:
        return ContrastiveUCB([mdp(s) for s in seeds], seed=seeds, **variant)

    whole, half = play(fresh(), 2 * n), play(fresh(), n)
    paths = [save_checkpoint(tmp_path / str(i), n, half.state_of(i)) for i in range(2)]
    resumed = fresh()
    resumed.load_states([load_checkpoint(path) for path in paths])
    play(resumed, n)
    for i in range(2):
        assert_same_state(whole, resumed, i, i)


def test_learned_reward_converges_on_visited_pairs() -> None:
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.2, 1, (2, 3, 2))
    env = TabularMDP(
        LowRankMDP(3, 2, 2, 2).kernel, scale * rng.random(scale.shape), reward_scale=scale
    )
    agent = play(ContrastiveUCB(env, seed=0, algo="ucbvi", epsilon=1.0, reward="learned"), 1000)
    visits = agent.model.visits.reshape(scale.shape)
    often = visits > 200
    assert often.sum() >= 6
    error = np.abs(agent.model.rewards()[0] - env.rewards)
    assert (error[often] < 4 * scale[often] / 2 / np.sqrt(visits[often])).all()
    never = visits == 0
    assert (agent.model.rewards()[0][never] == 0).all()
    known = ContrastiveUCB(env, reward="known")
    np.testing.assert_array_equal(known.model.rewards()[0], env.rewards)


def test_linear_reward_equals_a_regression_by_loops() -> None:
    """The estimate and its width, from all visits and the features of the last fit."""
    agent = ContrastiveUCB(mdp(), seed=2, reward="linear", alpha=0.4, reward_alpha=0.5, ridge=2.0)
    known = ContrastiveUCB(mdp(), seed=2, reward="known", alpha=0.4, ridge=2.0)
    play(agent, 8)
    model = agent.model
    phi, rewards, bonus = model.kernel.features[0], model.rewards()[0], model.bonus(model.kernel, 8)
    known.model.load_states([model.state_of(0)])
    without = known.model.bonus(model.kernel, 8)
    for h in range(H):
        gram, every, moment = 0.1 * np.eye(D), 2.0 * np.eye(D), np.zeros(D)
        for z in range(S * A):
            moment += phi[h, z] * model.reward_sums[0, h, z]
            gram += model.visits[0, h, z] * np.outer(phi[h, z], phi[h, z])
            every += model.visits[0, h, z] * np.outer(phi[h, z], phi[h, z])
        weights, inverse = np.linalg.solve(gram, moment), np.linalg.inv(every)
        for z in range(S * A):
            where = 0, h, *divmod(z, A)
            assert rewards[where[1:]] == pytest.approx(phi[h, z] @ weights, rel=1e-9, abs=1e-12)
            width = 0.4 * 0.5 * np.sqrt(phi[h, z] @ inverse @ phi[h, z])
            assert bonus[where] - without[where] == pytest.approx(width, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_with_one_hot_features_the_linear_reward_is_the_mean_of_the_pairs(seed: int) -> None:
    base = LowRankMDP(3, 2, 2, 2, seed=seed, reward="linear")
    one_hot = np.broadcast_to(np.eye(6).reshape(3, 2, 6), (2, 3, 2, 6))
    env = TabularMDP.from_factors(one_hot, base.kernel.table(), rewards=base.rewards)
    agents = [
        play(ContrastiveUCB(env, seed=seed, algo="lsvi-ucb", reward=reward), 20)
        for reward in ("linear", "learned")
    ]
    linear, mean = (agent.model for agent in agents)
    np.testing.assert_allclose(linear.rewards(), mean.rewards(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(agents[0].bonus, agents[1].bonus, rtol=1e-9)


def test_a_linear_reward_is_learned_also_at_pairs_without_visits() -> None:
    """With the true features, d numbers per step are estimated instead of S A."""
    env = LowRankMDP(30, 4, 2, 3, seed=1, reward="linear")
    runs = {
        reward: play(ContrastiveUCB(env, seed=0, algo="lsvi-ucb", reward=reward), 60).model
        for reward in ("linear", "learned")
    }
    never = runs["linear"].visits.reshape(1, 3, 30, 4) == 0
    assert never.sum() > 50
    errors = {name: np.abs(run.rewards() - env.rewards)[never] for name, run in runs.items()}
    assert errors["linear"].max() < 0.1
    assert errors["learned"].mean() > 0.2


def test_a_nan_in_the_model_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Kernel(np.full((1, H, S * A, S), np.nan))
    for algo, message in (("ucbvi", "Q-bar .* NaN"), ("contrastive-ucb", "covariance .* NaN")):
        agent = ContrastiveUCB(mdp(), algo=algo)
        monkeypatch.setattr(agent.model, "fit", lambda: broken)
        with pytest.raises(ArithmeticError, match=message):
            agent.round()
        assert agent.n_rounds == 0


def test_environments_seeds_and_states_must_match() -> None:
    for seed in (0, [0, 1, 2]):
        with pytest.raises(ValueError, match="pass one environment per seed"):
            ContrastiveUCB([mdp(), mdp()], seed=seed)
    agent = ContrastiveUCB([mdp(0), mdp(1)], seed=[0, 1])
    early = agent.state_of(0)
    agent.round()
    assert (agent.n_rounds, agent.trajectories, agent.env_steps) == (1, H, steps_per_round(H))
    with pytest.raises(ValueError, match=r"rounds \[0, 1\]"):
        agent.load_states([early, agent.state_of(1)])


def test_the_drawn_policy_is_that_of_a_uniform_round() -> None:
    agent = ContrastiveUCB([mdp()] * 200, seed=list(range(200)))
    assert (agent.drawn.policy == 1 / A).all()
    policies = []
    for _ in range(6):
        agent.round()
        policies.append(agent.policies)
    drawn = agent.drawn
    for seed in range(200):
        np.testing.assert_array_equal(drawn.policy[seed], policies[drawn.number[seed] - 1][seed])
    counts = np.bincount(drawn.number, minlength=7)[1:]
    expected = 200 / 6
    assert ((counts - expected) ** 2 / expected).sum() < 20.5  # chi2 with 5 degrees: 99.9 %


def test_the_summary_has_the_exact_gap_of_the_drawn_policy() -> None:
    seeds = list(range(8))
    agent = ContrastiveUCB([mdp(seed) for seed in seeds], seed=seeds)
    result = agent.learn(30, progress=False)
    assert len(set(agent.drawn.number)) > 3
    for seed, summary in enumerate(result.summaries):
        exact = suboptimality(mdp(seed), agent.drawn.policy[seed])
        assert summary["drawn_gap"] == pytest.approx(exact, abs=1e-12)
        assert summary["drawn_gap"] == result.gap[agent.drawn.number[seed] - 1, seed]
        assert summary["average_regret"] == pytest.approx(result.gap[:, seed].mean())


def test_predict_takes_observations_of_gymnasium() -> None:
    env = mdp()
    agent = play(ContrastiveUCB(env, seed=0), 3)
    best = agent.policy.argmax(-1)
    observation, _ = env.reset(seed=0)
    action, state = agent.predict(observation)
    assert action == best[0, observation[1]]
    assert state is None
    many = np.array([[h, s] for h in range(H) for s in range(S)])
    actions, state = agent.predict(many, state="kept", deterministic=False)
    np.testing.assert_array_equal(actions, best.ravel())
    assert state == "kept"
    env.step(action)
    with pytest.raises(ValueError, match=r"\(step, state\), got int64 of shape \(3,\)"):
        agent.predict(np.zeros(3, dtype=np.int64))


def test_solves_a_small_lock() -> None:
    env = Lock(horizon=3, n_actions=3, n_dead=20)
    session = Session(ContrastiveUCB(env, seed=0, negatives="exact"))
    for _ in session.rounds(400):
        if session.tracker.solved_at[0]:
            break
    assert 0 < session.tracker.solved_at[0] < 400
    assert suboptimality(env, session.agent.policy) == pytest.approx(0, abs=1e-9)
    np.testing.assert_array_equal(
        session.agent.policy[0, :2].argmax(-1), env.combination[0]
    )  # nothing else opens the first step


def test_tables_do_not_import_torch(tmp_path: Path) -> None:
    """Importing it takes seconds, and neither rounds nor saving and loading need it."""
    program = f"""
import sys
import contrastive_ucb as cu
for agent in (cu.ContrastiveUCB(cu.Lock(3, 2, 2)), cu.ContrastiveULCB(cu.LowRankGame(3, 2, 2, 2))):
    agent.learn(2, progress=False)
    agent.save({str(tmp_path)!r})
    cu.load({str(tmp_path)!r}).round()
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
