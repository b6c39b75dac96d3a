"""What an update asks of the bonus: of which state, when Sigma is rebuilt, and room for it."""

from typing import Any

import numpy as np
import pytest
import torch
from agents.deep_play import draw, learner, started, train
from experiments.training_runs import training

from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.experiments.training import Training

VISITS = BonusConfig(feature="hidden", pairs="visits", scale=3.0, ridge=0.5, optimistic=True)


def test_the_bonus_of_the_next_state_is_that_of_the_next_state() -> None:
    agent = learner(noisy=0.0, bonus=VISITS)
    replay, rng = started(agent)
    batch, asked = draw(agent, replay, rng), list[torch.Tensor]()
    assert agent.bonus is not None
    inner = agent.bonus.of_all
    agent.bonus.of_all = lambda latent: asked.append(latent) or inner(latent)  # type: ignore[method-assign, func-returns-value]
    ahead = agent.network.encoder(torch.from_numpy(batch.bootstrap)).detach()
    agent.update(replay, batch)
    torch.testing.assert_close(asked[0], ahead)


def test_updates_rebuild_sigma_from_the_visits_with_the_features_of_now() -> None:
    bonus = BonusConfig(feature="hidden", pairs="visits", scale=1.0, ridge=0.5, rebuild_every=3)
    agent = learner(noisy=0.0, bonus=bonus)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    assert agent.bonus is not None
    before = agent.bonus.counted.sigma.clone()  # type: ignore[union-attr]
    agent.update(replay, draw(agent, replay, rng))
    times = np.arange(replay.history.oldest, replay.history.now)
    times = times[~replay.history.at("closing", times)]
    latent = agent.network.encoder(torch.from_numpy(replay.observations(times)))
    phi = agent.network.head.hidden(latent, noisy=False).detach().double()
    taken = replay.actions(times)
    expected = torch.stack([
        0.5 * torch.eye(phi.shape[1], dtype=torch.float64) + phi[taken == a].mT @ phi[taken == a]
        for a in range(agent.n_actions)
    ])  # fmt: skip
    after = agent.bonus.counted.sigma  # type: ignore[union-attr]
    torch.testing.assert_close(after.view_as(expected), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("feature", ["probs", "hidden"])
@pytest.mark.parametrize("noisy", [False, True])
def test_features_have_noise_only_if_asked_to(feature: Any, noisy: bool) -> None:
    agent = learner(noisy=2.0, bonus=BonusConfig(feature=feature, scale=1.0, noisy=noisy))
    latent, actions = agent.network.encoder(torch.ones(1, 4)), torch.tensor([0])
    found = []
    assert agent.bonus is not None
    for _ in range(2):
        agent._sample_noise()
        found.append((agent.bonus.feature(latent, actions), agent.bonus.of_all(latent)))
    same = [torch.equal(one, other) for one, other in zip(*found, strict=True)]
    assert same == [not noisy, not noisy]


def test_atoms_have_room_for_bonuses_only_where_there_are_any() -> None:
    ends = {}
    for algo in ("spr", "spr-ucb"):
        support = Training("DeepSea-5", algo).rainbow_trainer().agent.network.support
        ends[algo] = support[0].item(), support[-1].item()
    low, high = ends["spr"]
    assert ends["spr-ucb"] == pytest.approx((low, high + 4.0))


def test_importance_exponents_grow_from_the_first_update_to_the_last_step() -> None:
    trainer: Any = training(steps=40, first_update=10, importance=(0.4, 1.0)).trainer()
    inner, given = trainer.replay.sample, dict[int, float]()

    def noted(uniform: Any, importance: float) -> Any:
        given[trainer.n_steps] = importance
        return inner(uniform, importance)

    trainer.replay.sample = noted
    for _ in trainer.run(40):
        pass
    assert min(given) < 20
    for step, importance in given.items():
        assert importance == pytest.approx(0.4 + 0.6 * (step - 10) / 30)
    assert given[40] == pytest.approx(1.0)
