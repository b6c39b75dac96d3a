"""The explorer: targets against a slow oracle, who acts, and a learner that it does not change."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from agents.deep_play import SMALL, assert_equal, draw, learner, play, started
from runs.training_runs import TINY

from contrastive_ucb.agents.deep.config import ExplorerConfig
from contrastive_ucb.agents.deep.presets import DEEP_PRESETS, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.bonus import BONUS_NAMES
from contrastive_ucb.bonus.config import IntrinsicConfig
from contrastive_ucb.core.runtime import threads
from contrastive_ucb.data.replay import Replay
from contrastive_ucb.runs.training import Training

PAIR = {"of": "pair", "dim": 8}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with threads(1):
        yield


def config(bonus: str = "elliptical", settings: Any = PAIR, **changes: Any) -> ExplorerConfig:
    intrinsic = IntrinsicConfig(bonus, scale=2.0, normalize=False, settings=settings)
    return ExplorerConfig(intrinsic, **{"batch_size": 50, "hidden": 7, **changes})


def reward(agent: Rainbow, replay: Replay, time: int) -> float:
    """The present intrinsic reward of one transition."""
    explorer, history = agent.explorer, replay.history
    assert explorer is not None
    at = np.array([time])
    seen, after = history.observations(at), history.observations(at + 1)
    lifelong = explorer.bonus.lifelong(seen, history.at("action", at), after)[0]
    return float(lifelong * replay.extra("episodic", at)[0])


def target(agent: Rainbow, replay: Replay, time: int) -> float:
    """The target of Q_int for one transition, step by step."""
    explorer, history = agent.explorer, replay.history
    assert explorer is not None
    total, factor = 0.0, 1.0
    for _ in range(explorer.config.n_step):
        total += factor * reward(agent, replay, time)
        factor *= explorer.config.discount
        at = np.array([time])
        if history.at("terminated", at)[0]:
            return total
        is_newest = history.at("transition", at)[0] == history.n_transitions - 1
        time += 1
        if history.at("truncated", at)[0] or is_newest:
            break
    seen = history.observations(np.array([time]))
    with torch.no_grad():
        online = explorer.network(torch.from_numpy(seen))[0].tolist()
        values = explorer.target(torch.from_numpy(seen))[0].tolist()
    bonus = [0.0] * len(values)
    if explorer.bonus.is_of_pair:
        bonus = explorer.bonus.of_actions(seen)[0].tolist()  # type: ignore[attr-defined]
    best = max(range(len(values)), key=lambda a: online[a] + bonus[a])
    return total + factor * (values[best] + bonus[best])


@pytest.mark.parametrize(
    ("bonus", "settings", "changes"),
    [
        ("elliptical", PAIR, {}),
        ("elliptical", PAIR, {"target_every": 5, "n_step": 1}),
        ("elliptical", {"scope": "product", "dim": 8}, {"discount": 0.5}),
        ("counts", {"of": "pair", "keys": "exact"}, {"n_step": 4}),
    ],
    ids=str,
)
def test_targets_equal_the_oracle(bonus: str, settings: Any, changes: dict[str, Any]) -> None:
    agent = learner(explorer=config(bonus, settings, **changes))
    replay, rng = started(agent)
    for _ in range(3):
        agent.update(replay, draw(agent, replay, rng))
    explorer, history = agent.explorer, replay.history
    assert explorer is not None
    times = np.arange(history.now)[~history.at("closing", np.arange(history.now))]
    rewards = explorer.rewards(replay, history.following(times, explorer.config.n_step))
    found = explorer.targets(history, times, rewards)[:, 0].tolist()
    assert found == pytest.approx([target(agent, replay, t) for t in times.tolist()], rel=1e-4)
    assert history.running  # the returns of the newest transitions end early
    assert history.at("terminated", times).any()
    assert history.at("truncated", times).any()


def test_episodic_parts_are_those_of_the_visit_and_lifelong_ones_present() -> None:
    agent = learner(explorer=config("elliptical", {"scope": "product", "dim": 8}))
    replay, rng = started(agent)
    explorer, time = agent.explorer, np.array([3])
    assert explorer is not None
    before, stored = explorer.rewards(replay, time), replay.extra("episodic", time)
    play(agent, replay, 60, rng)
    assert stored == replay.extra("episodic", time) != 1
    assert explorer.rewards(replay, time) < before


@pytest.mark.parametrize(
    ("bonus", "settings"),
    [
        ("elliptical", PAIR),
        ("counts", {"of": "pair", "keys": "exact"}),
        ("contrastive", {"feature": "phi", "scope": "lifelong", "dim": 8}),
    ],
)
def test_bonus_of_all_actions_is_that_of_each(bonus: str, settings: Any) -> None:
    agent = learner(explorer=config(bonus, settings))
    replay, _ = started(agent)
    assert agent.explorer is not None
    made: Any = agent.explorer.bonus
    assert made.is_of_pair
    seen = replay.history.observations(np.arange(5))
    of_all = made.of_actions(seen)
    for action in range(3):
        each = made.lifelong(seen, np.full(5, action), seen)
        np.testing.assert_allclose(of_all[:, action], each, rtol=1e-6)
    assert len(set(of_all.round(6).ravel().tolist())) > 1


@pytest.mark.slow
def test_explorer_finds_the_treasure_of_deepsea() -> None:
    """A random policy finds it in one of 256 episodes."""
    settings = {"hidden": 16, "first_update": 50, "updates_per_step": 0.5, "explorer.updates": 4}
    settings |= {"bonus.preset": "explorer", "explorer.share": 1.0}
    trainer = Training("DeepSea-8", "rainbow", settings, 640, seed=100).trainer()
    list(trainer.run(640))
    assert sum(score > 0.5 for score in trainer.returns) >= 2


def test_updates_of_q_int_reduce_its_loss() -> None:
    agent = learner(explorer=config(discount=0.0))
    replay, _ = started(agent)
    explorer = agent.explorer
    assert explorer is not None
    losses = [explorer.update(replay)["losses/explorer"] for _ in range(200)]
    assert np.mean(losses[-20:]) < 0.3 * np.mean(losses[:20])


@pytest.mark.parametrize("settings", [{"spr_weight": 2.0}, {"distributional": False}], ids=str)
def test_learner_is_unchanged_on_the_same_batch(settings: dict[str, Any]) -> None:
    agents = [learner(**settings), learner(**settings, explorer=config(share=0.0))]
    for agent in agents:
        replay, rng = started(agent)
        for _ in range(4):
            play(agent, replay, 3, rng)
            agent.update(replay, draw(agent, replay, rng))
    states = [agent.state_dict() for agent in agents]
    explorer = states[1].pop("explorer")
    assert explorer["n_updates"] == 4
    assert_equal(*states)


def test_run_without_explorer_episodes_is_that_of_the_learner() -> None:
    """Actions, noise and replay memory are those of SPR if the explorer never acts."""
    settings = {"bonus.preset": "explorer", "explorer.share": 0.0}
    runs = [Training("DeepSea-5", "spr", {**TINY, **more}, 60) for more in ({}, settings)]
    trainers = [task.trainer() for task in runs]
    for trainer in trainers:
        list(trainer.run(60))
    weights = [dict(trainer.agent.network.state_dict()) for trainer in trainers]
    assert_equal(*weights)
    assert trainers[0].returns == trainers[1].returns
    actions = [trainer.replay.history.field["action"] for trainer in trainers]
    np.testing.assert_array_equal(*actions)


def test_acts_as_the_learner_or_greedily_in_the_sum_of_both_values() -> None:
    agent = learner(explorer=config())
    replay, rng = started(agent)
    agent.update(replay, draw(agent, replay, rng))
    explorer = agent.explorer
    assert explorer is not None
    differs = 0
    for _ in range(30):
        seen = rng.normal(size=4).astype(np.float32)
        rows = torch.from_numpy(seen[None])
        with torch.no_grad():
            latent = agent.network.encoder(rows)
            plain, noisy = (agent.network.q_values(latent, noise)[0] for noise in (False, True))
            intrinsic = explorer.network(rows)[0]
        bonus = torch.from_numpy(explorer.bonus.of_actions(seen[None])[0])  # type: ignore[attr-defined]
        explorer.is_acting = True
        acted, _ = agent.act(seen)
        assert acted == int((plain + 2.0 * (intrinsic + bonus)).argmax())
        explorer.is_acting = False
        assert agent.act(seen)[0] == int(noisy.argmax())
        differs += acted != int(noisy.argmax())
        assert agent.act(seen, forced=1)[0] == 1
        assert agent.best(seen[None])[0] == int(plain.argmax())
    assert differs > 0


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_share_of_episodes_and_rare_switches(share: float) -> None:
    explorer = learner(explorer=config(share=share, switch=0.1)).explorer
    assert explorer is not None
    began = []
    for _ in range(2000):
        explorer.choose_mode(begins=True)
        began.append(explorer.is_acting)
    assert np.mean(began) == pytest.approx(share, abs=0.04)
    explorer.choose_mode(begins=True)
    within = []
    for _ in range(2000):
        explorer.choose_mode(begins=False)
        within.append(explorer.is_acting)
    changes = np.mean(np.diff(np.array(within, int)) != 0)
    assert changes == pytest.approx(0.1 * 2 * share * (1 - share), abs=0.02)


def test_drawn_transitions_are_complete_after_old_ones_were_overwritten() -> None:
    agent = learner(stack=2, replay_capacity=40, explorer=config(batch_size=400))
    replay, rng = started(agent)
    history, explorer = replay.history, agent.explorer
    assert explorer is not None
    for _ in range(40):
        play(agent, replay, 3, rng)
        times = explorer._draw(history)
        assert not history.at("closing", times).any()
        first_frame = np.maximum(times - 1, history.at("start", times))
        assert (first_frame >= history.oldest).all()
        stored = ~history.at("closing", np.arange(history.oldest, history.now))
        assert len(set(times.tolist())) >= stored.sum() - 1
        assert history.time_of[(history.n_transitions - 1) % history.slots] in times


@pytest.mark.parametrize("bonus", BONUS_NAMES)
@pytest.mark.parametrize("shape", [(4,), (2, 5, 5)], ids=str)
def test_state_continues_exactly_with_every_bonus(bonus: str, shape: tuple[int, ...]) -> None:
    intrinsic = config().changed({"intrinsic.bonus": bonus}).intrinsic
    often = {name: 16 for name in ("every", "batch_size") if name in intrinsic.settings}
    intrinsic = replace(intrinsic, normalize=True, settings={**intrinsic.settings, **often})
    explorer = ExplorerConfig(intrinsic, target_every=3, hidden=7)
    agents = [learner(shape=shape, seed=seed, explorer=explorer) for seed in (0, 1)]
    replays = [started(agent) for agent in agents]
    replay, rng = replays[0]
    for _ in range(4):
        agents[0].update(replay, draw(agents[0], replay, rng))
    agents[1].load_state_dict(agents[0].state_dict())
    other = agents[1].new_replay()
    other.load_state_dict(replay.state_dict())
    streams = [np.random.default_rng(3), np.random.default_rng(3)]
    metrics = []
    for agent, memory, random in zip(agents, (replay, other), streams, strict=True):
        for _ in range(5):
            play(agent, memory, 5, random)
            metrics.append(agent.update(memory, draw(agent, memory, random)))
    assert metrics[:5] == metrics[5:]


def test_atari_frames_pass_through_the_encoder_for_images() -> None:
    agent = learner(shape=(1, 36, 36), stack=2, explorer=config("rnd", {"dim": 8}))
    replay, rng = started(agent)
    metrics = agent.update(replay, draw(agent, replay, rng))
    assert np.isfinite(metrics["losses/explorer"])
    assert agent.explorer is not None
    assert agent.explorer.bonus.arrays.leaves[0].kind == "image"


def test_nan_in_q_int_is_an_error_with_its_location() -> None:
    agent = learner(explorer=config())
    replay, rng = started(agent)
    assert agent.explorer is not None
    with torch.no_grad():
        agent.explorer.network.head.first.bias[0] = torch.nan
    with pytest.raises(ArithmeticError, match=r"head.first.bias .* update 1 of the explorer"):
        agent.update(replay, draw(agent, replay, rng))
    with pytest.raises(ArithmeticError, match=r"head.first.bias is not finite"):
        agent.check_finite()


@pytest.mark.parametrize("algo", DEEP_PRESETS)
def test_every_agent_has_the_preset(algo: str) -> None:
    shape = (4, 10, 10)
    explored = configure(algo, {"bonus.preset": "explorer"}, shape)
    assert explored.explorer is not None
    assert not explored.bonus.is_on
    plain = configure(algo, {"bonus.preset": "none"}, shape)
    assert plain.explorer is None
    assert replace(explored, explorer=None, bonus=plain.bonus) == plain


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"explorer.share": 0.3}, ["explorer.share=0.3", "bonus.preset=explorer"]),
        ({"intrinsic.bonus": "rnd"}, ["intrinsic.bonus=rnd", "bonus.preset=explorer"]),
        ({"bonus.preset": "explorer", "explorer.shar": 0.3}, ["explorer.shar", "explorer.share"]),
        ({"bonus.preset": "explorer", "explorer.share": 1.5}, ["explorer.share", "1.5"]),
        ({"bonus.preset": "explorer", "explorer.n_step": 0}, ["explorer.n_step", "0"]),
        ({"bonus.preset": "explorer", "intrinsic.bonus": "rdn"}, ["rdn", "rnd"]),
        ({"bonus.preset": "explorer", "intrinsic.bonus": "none"}, ["intrinsic.bonus", "none"]),
        ({"bonus.preset": "explorer", "intrinsic.scale": 0.0}, ["intrinsic.scale", "0"]),
        ({"bonus.preset": "explorer", "intrinsic.bits": "x"}, ["intrinsic.bits", "x"]),
    ],
    ids=str,
)
def test_wrong_settings_name_the_value_and_the_remedy(
    settings: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(ValueError, match=parts[0]) as caught:
        _ = Training("DeepSea-5", "spr", settings, 10).config
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_another_bonus_has_its_own_settings() -> None:
    settings = {"bonus.preset": "explorer", "intrinsic.bonus": "rnd", "explorer.share": 0.25}
    task = Training("DeepSea-5", "spr", {**settings, "intrinsic.dim": 32}, 10)
    explorer = task.config.explorer  # type: ignore[union-attr]
    assert explorer is not None
    assert explorer.intrinsic.settings["every"] == 256
    assert task.bonus == "explorer intrinsic.bonus=rnd explorer.share=0.25 intrinsic.dim=32"
    again = Training.of_spec(task.spec())
    assert again.config == task.config
    assert again.spec().identity() == task.spec().identity()


def test_runs_without_an_explorer_keep_their_identity() -> None:
    assert "explorer" not in Training("DeepSea-5", "spr", {}, 10).spec().config["agent"]
    assert replace(SMALL, explorer=None) == SMALL
