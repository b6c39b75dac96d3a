"""The bonus against hand-computed tables, and its use by the learner."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from agents.deep_play import SMALL, draw, learner, started, train

from contrastive_ucb.agents.deep.bonus import FEATURE, DeepBonus, PublishedBonus, visits
from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.agents.deep.presets import BONUSES
from contrastive_ucb.data.replay import Batch, Replay

pytestmark = pytest.mark.filterwarnings("ignore:a return of")  # of random rewards
# Two episodes: (s, a) = (1, 0), (2, 1) terminates; (3, 1), (4, 0), (5, 1), (6, 0) is truncated.
STEPS = [(1, 0, "-"), (2, 1, "T"), (3, 1, "-"), (4, 0, "-"), (5, 1, "-"), (6, 0, "t")]
DISCOUNT = 0.5
ROOT = np.sqrt


class Table(DeepBonus):
    """phi(s, a) = factor * s * e_a, or factor * s with hidden features."""

    factor = 1.0

    def feature(self, latent: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        s = self.factor * latent.reshape(-1, 1)
        return s if self.is_hidden else s * torch.eye(2)[actions]


def table(bonus: BonusConfig, jumps: int = 1) -> Table:
    config = replace(SMALL, n_step=2, discount=DISCOUNT, spr_weight=1.0, jumps=jumps, bonus=bonus)
    head = SimpleNamespace(
        first=SimpleNamespace(weight=torch.zeros(1, 1)), hidden=lambda latent, noisy: latent
    )
    network: Any = SimpleNamespace(head=head, support=torch.zeros(2))
    return Table(config, network, n_actions=2)


def filled(bonus: Table, capacity: int = 40) -> Replay:
    """A memory of the two episodes."""
    replay = Replay(
        capacity,
        (1,),
        np.float32,
        n_step=2,
        discount=DISCOUNT,
        jumps=1,
        window=bonus.window,
        extras=bonus.extras,
    )
    for s, a, end in STEPS:
        if not replay.history.running:
            replay.begin(frame(s))
        extras = bonus.visit(torch.tensor([[float(s)]]), a) if bonus.extras else {}
        following = 9 if end != "-" else s + 1
        replay.add(a, 0.0, frame(following), end == "T", end == "t", **extras)
    return replay


def frame(s: int) -> Any:
    return np.array([s], dtype=np.float32)


def everything(replay: Replay) -> Batch:
    """Every transition that can be sampled, once and in order."""
    return replay.sample(np.full(len(replay), 0.5), importance_exponent=0.0)


def bonuses(bonus: Table, replay: Replay, batch: Batch) -> list[float]:
    now = torch.from_numpy(replay.history.observations(batch.index))
    values: list[float] = bonus.of_batch(batch, replay, now, torch.from_numpy).tolist()
    return values


def test_paper_preset() -> None:
    """Sigma = 1 + the sum of s^2 per action; the sum of two bonuses stops at the end."""
    bonus = table(BONUSES["paper"].bonus)
    replay = filled(bonus)
    assert bonus.counted.n_seen == 0  # acting does not change Sigma
    found = bonuses(bonus, replay, everything(replay))
    zero, one = ROOT(1 + 1 + 16 + 36), ROOT(1 + 4 + 9 + 25)
    expected = [
        1 / zero + 0.5 * 2 / one,
        2 / one,
        3 / one + 0.5 * 4 / zero,
        4 / zero + 0.5 * 5 / one,
        5 / one + 0.5 * 6 / zero,
        6 / zero,
    ]
    assert found == pytest.approx(expected)
    bonuses(bonus, replay, everything(replay))
    assert bonus.counted.sigma[0].diagonal().tolist() == [1 + 2 * 53, 1 + 2 * 38]


def test_stored_features_are_refreshed_when_sampled() -> None:
    bonus = table(BONUSES["paper"].bonus)
    replay = filled(bonus)
    bonus.factor = 10.0
    batch = replay.sample(np.array([0.5]), importance_exponent=0.0)
    at = int(batch.index[0])
    bonuses(bonus, replay, batch)
    times = visits(replay)
    stored = replay.extra(FEATURE, times)
    for time, feature, (s, a, _) in zip(times, stored, STEPS, strict=True):
        factor = 10.0 if time == at else 1.0
        assert feature.tolist() == (factor * s * np.eye(2)[a]).tolist()


def test_reference_preset() -> None:
    """All steps of the windows, previous actions, and a sum cut only by an end at the first step.

    Window of (1, 0): it ends at step 1 <= K, so observation 2 repeats; previous actions ?, 0, 1, 1.
    Window of (2, 1): it ends at once, 2 repeats four times with 0, 1, 1, 0. Window of (3, 1): it
    ends at step 3 > K; 3, 4, 5, 6 with 1, 1, 0, 1.
    """
    bonus = table(BONUSES["reference"].bonus)
    assert bonus.window == 2 + 1 + 1
    assert bonus.extras == {}
    replay = filled(bonus)
    batch = everything(replay)
    assert batch.index.tolist() == [0, 1, 3]
    found = bonuses(bonus, replay, batch)
    zero = 1 + 4 + (4 + 4) + 25
    one = (4 + 4) + (4 + 4) + 9 + 16 + 36
    expected = [(1 + 0.5 * 2) / ROOT(zero), 0.0, (3 + 0.5 * 4) / ROOT(one)]
    assert found == pytest.approx(expected, rel=1e-5)
    assert bonus.counted.sigma.dtype == torch.float32
    bonuses(bonus, replay, batch)  # replayed pairs count again
    assert bonus.counted.sigma[0].diagonal().tolist() == pytest.approx([2 * zero, 2 * one])


def test_algorithm_1_preset() -> None:
    """One Sigma per action over visits, unchanged by replay; doubled features give 4 Sigma."""
    bonus = table(BONUSES["algorithm-1"].bonus)
    replay = filled(bonus)
    sums = torch.tensor([53.0, 38.0])
    assert bonus.counted.sigma.flatten().tolist() == pytest.approx((0.01 + sums).tolist())
    zero, one = ROOT(0.01 + 53), ROOT(0.01 + 38)
    found = bonuses(bonus, replay, everything(replay))
    assert found[:2] == pytest.approx([0.1 * (1 / zero + 0.5 * 2 / one), 0.1 * 2 / one])
    assert bonus.of_all(torch.tensor([[7.0]]))[0].tolist() == pytest.approx([0.7 / zero, 0.7 / one])
    bonus.factor = 2.0
    rng = np.random.default_rng(0)
    bonus.after_update(99, replay, torch.from_numpy, rng)
    assert bonus.counted.sigma.flatten().tolist() == pytest.approx((0.01 + sums).tolist())
    bonus.after_update(100, replay, torch.from_numpy, rng)
    assert bonus.counted.sigma.flatten().tolist() == pytest.approx((0.01 + 4 * sums).tolist())
    assert replay.extra(FEATURE, np.array([0]))[0].tolist() == [2.0]


def test_rebuild_from_a_sample_of_visits_is_reweighted() -> None:
    bonus = table(replace(BONUSES["algorithm-1"].bonus, rebuild_sample=3))
    replay = filled(bonus)
    bonus.after_update(100, replay, torch.from_numpy, np.random.default_rng(0))
    assert bonus.counted.n_seen == pytest.approx(6)


def test_single_settings() -> None:
    paper = BONUSES["paper"].bonus
    zero, one = ROOT(1 + 1 + 16 + 36), ROOT(1 + 4 + 9 + 25)
    first = table(replace(paper, steps="first"))
    replay = filled(first)
    found = bonuses(first, replay, everything(replay))
    assert found == pytest.approx([1 / zero, 2 / one, 3 / one, 4 / zero, 5 / one, 6 / zero])

    later = table(replace(paper, steps="later"))
    replay = filled(later)
    found = bonuses(later, replay, everything(replay))
    every = table(paper)
    replay = filled(every)
    whole = bonuses(every, replay, everything(replay))
    of_first = [1 / zero, 2 / one, 3 / one, 4 / zero, 5 / one, 6 / zero]
    assert found == pytest.approx([a - b for a, b in zip(whole, of_first, strict=True)], abs=1e-6)
    assert max(found) > 0

    published = table(replace(paper, cut="published"))
    assert published.window == 2
    replay = filled(published)
    batch = everything(replay)
    assert batch.index.tolist() == [0, 1, 3, 4, 5]  # the last one has no successor
    found = bonuses(published, replay, batch)
    zero, one = ROOT(1 + 1 + 16), ROOT(1 + 4 + 9 + 25)
    assert found[:2] == pytest.approx([1 / zero + 0.5 * 2 / one, 0.0])

    previous = table(replace(paper, action="previous"))
    replay = filled(previous)
    batch = everything(replay)
    found = bonuses(previous, replay, batch)
    zero, one = ROOT(1 + 1 + 4 + 25), ROOT(1 + 9 + 16)  # 1, 2, 5 after 0 and 3, 4 after 1
    assert found[:3] == pytest.approx(
        [1 / zero + 0.5 * 2 / zero, 2 / zero, 3 / one + 0.5 * 4 / one]
    )

    window = table(replace(paper, pairs="window"))
    replay = filled(window)
    found = bonuses(window, replay, everything(replay))
    zero, one = 1 + 1 + 16 + 16 + 16 + 36, 1 + 4 + 9 + 4 + 9 + 25 + 9 + 25
    assert window.counted.sigma[0].diagonal().tolist() == [zero, one]
    assert found[:2] == pytest.approx([1 / ROOT(zero) + 0.5 * 2 / ROOT(one), 2 / ROOT(one)])


SETTINGS: list[dict[str, Any]] = [
    {"feature": "hidden"},
    {"pairs": "window"},
    {"pairs": "visits", "rebuild_every": 3},
    {"pairs": "visits", "rebuild_every": 0},
    {"action": "previous"},
    {"action": "previous", "feature": "hidden"},
    {"action": "previous", "pairs": "window", "feature": "hidden"},
    {"steps": "first"},
    {"steps": "later"},
    {"cut": "published"},
    {"optimistic": True},
    {"optimistic": True, "feature": "hidden", "numerics": "published"},
    {"noisy": True},
    {"numerics": "published"},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", [(4,), (2, 10, 10)], ids=["vector", "image"])
def test_every_setting_runs_in_the_learner(setting: dict[str, Any], shape: tuple[int, ...]) -> None:
    bonus = replace(BONUSES["paper"].bonus, **setting)
    agent = learner(spr_weight=1.0, bonus=bonus, shape=shape, stack=2)
    replay, rng = started(agent)
    train(agent, replay, 4, rng)
    assert agent.update(replay, draw(agent, replay, rng))["bonus/mean"] > 0


def test_features_above_the_range_of_float16_raise() -> None:
    bonus = table(BONUSES["algorithm-1"].bonus)
    stored = bonus.visit(torch.tensor([[60_000.0]]), 0)[FEATURE]
    assert stored.dtype == np.float16
    assert np.isfinite(stored).all()
    with pytest.raises(ArithmeticError, match=r"feature of the bonus is 1e\+06, above the limit"):
        bonus.visit(torch.tensor([[1e6]]), 0)


def test_published_numerics_replace_nan_by_zero() -> None:
    """After one direction a million times, the float32 sum has lost the ridge."""
    bonus = PublishedBonus(3, ridge=1e-5)
    bonus.observe(torch.ones(1, 3) / 3, weight=1e6)
    found = bonus(torch.eye(3))
    assert torch.isfinite(found).all()
    assert (found == 0).any()


def test_updates_rebuild_sigma_with_current_features() -> None:
    bonus = BonusConfig(feature="hidden", pairs="visits", scale=1.0, ridge=0.5, rebuild_every=3)
    agent = learner(noisy=0.0, bonus=bonus)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    assert agent.bonus is not None
    before = agent.bonus.counted.sigma.clone()  # type: ignore[union-attr]
    agent.update(replay, draw(agent, replay, rng))
    times = np.arange(replay.history.oldest, replay.history.now)
    times = times[~replay.history.at("closing", times)]
    latent = agent.network.encoder(torch.from_numpy(replay.history.observations(times)))
    phi = agent.network.head.hidden(latent, noisy=False).detach().double()
    taken = replay.history.at("action", times)
    expected = torch.stack([
        0.5 * torch.eye(phi.shape[1], dtype=torch.float64) + phi[taken == a].mT @ phi[taken == a]
        for a in range(agent.n_actions)
    ])  # fmt: skip
    after = agent.bonus.counted.sigma  # type: ignore[union-attr]
    torch.testing.assert_close(after.view_as(expected), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("feature", ["probs", "hidden"])
@pytest.mark.parametrize("noisy", [False, True])
def test_setting_noisy_controls_noise_of_features(feature: Any, noisy: bool) -> None:
    agent = learner(noisy=2.0, bonus=BonusConfig(feature=feature, scale=1.0, noisy=noisy))
    latent, actions = agent.network.encoder(torch.ones(1, 4)), torch.tensor([0])
    found = []
    assert agent.bonus is not None
    for _ in range(2):
        agent._sample_noise()
        found.append((agent.bonus.feature(latent, actions), agent.bonus.of_all(latent)))
    same = [torch.equal(a, b) for a, b in zip(*found, strict=True)]
    assert same == [not noisy, not noisy]
