import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.deep_play import draw, learner, started, train
from agents.rainbow_oracle import first_update

from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.agents.deep.inputs import Inputs
from contrastive_ucb.agents.deep.presets import BONUSES, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint
from contrastive_ucb.envs.deepsea import DeepSeaGrid

SPR: dict[str, Any] = {"spr_weight": 2.0}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        SPR,
        SPR | {"target_every": 2},
        SPR | {"target_every": 2, "double": False},
        SPR | {"clip_norm": 0.05},  # both groups are above it
        {"distributional": False, "target_every": 3},
        SPR | {"spr_targets": "lagged", "priority": "clamped-kl"},
        {"priority": "loss", "new_priority": "largest", "bias_sigma": "outputs"},
    ],
    ids=str,
)
def test_an_update_is_what_a_loop_over_samples_computes(settings: dict[str, Any]) -> None:
    # Adam's first step is only the sign of the gradient, unless its epsilon is large.
    agent = learner(**settings, learning_rate=1.0, adam_eps=1.0)
    replay, rng = started(agent)
    replay.update_priorities(replay.drawable(), rng.random(len(replay)))
    batch = draw(agent, replay, rng)
    assert 0 in batch.discounts  # a termination is among them
    assert len(set(batch.weights.tolist())) == 6
    other = learner(seed=1, **settings).network
    if agent.target is not agent.network:  # an old one: no copy is due in the second update
        agent.target.load_state_dict(other.state_dict())
        agent.n_updates = 1
    if agent.lagged is not None:
        agent.lagged.load_state_dict(Rainbow._spr_target_parts(other).state_dict())
    weights, target = deepcopy(agent.network), deepcopy(agent.target)
    agent.update(replay, batch)
    noise = {name: x for name, x in agent.network.state_dict().items() if "noise" in name}
    weights.load_state_dict(noise, strict=False)
    assert not torch.equal(weights.head.first.noise_in, target.head.first.noise_in)
    lagged = target if agent.lagged is None else other
    expected, priorities = first_update(weights, target, lagged, agent.config, batch)
    for name, x in agent.network.named_parameters():
        assert torch.allclose(x, expected[name], rtol=0, atol=1e-5), name
    leaves = replay.tree.get(batch.index % replay.history.slots)
    latest = {at: max(p, 1e-6) ** 0.5 for at, p in zip(batch.index, priorities, strict=True)}
    assert leaves == pytest.approx([latest[at] for at in batch.index], rel=1e-3)


def test_the_bonus_of_the_next_action_enters_with_the_discount() -> None:
    """Plain values, so that the target is a number: r + b + gamma^n (Q + bonus)(s', a')."""
    bonus = BonusConfig(
        feature="hidden", pairs="visits", scale=3.0, ridge=0.5, optimistic=True, rebuild_every=0
    )
    agent = learner(distributional=False, noisy=0.0, bonus=bonus)
    replay, rng = started(agent)
    batch = draw(agent, replay, rng)
    assert agent.bonus is not None
    own = agent.bonus.counted
    latent = agent.network.encoder(torch.from_numpy(batch.bootstrap))
    q = agent.network.head(latent)[:, :, 0]
    hidden = agent.network.head.hidden(latent)
    width = own.of_all(hidden)
    n_step = torch.linspace(0, 1, len(q))
    values, next_bonus = agent.network.head(latent), agent.bonus.of_all(latent)
    actions = agent._next_actions(values, latent, next_bonus)
    found = agent._target(batch, values, actions, n_step, next_bonus)
    changed = 0
    for i in range(len(q)):
        best = int((q[i] + width[i]).argmax())
        changed += best != int(q[i].argmax())
        ahead = q[i, best] + width[i, best]
        target = batch.returns[i] + n_step[i] + batch.discounts[i] * ahead
        assert found[i, 0].item() == pytest.approx(target.item(), rel=1e-5)
    assert changed > 0
    assert 0 in batch.discounts


def test_an_optimist_acts_on_q_plus_bonus_and_is_evaluated_without() -> None:
    bonus = BonusConfig(feature="hidden", pairs="visits", scale=100.0, optimistic=True)
    agent = learner(noisy=0.0, bonus=bonus)
    seen = np.ones(4, dtype=np.float32)
    greedy = int(agent.best(seen[None])[0])
    first, kept = agent.act(seen)
    assert kept["feature"].shape == (12,)
    chosen = {first, *(agent.act(seen)[0] for _ in range(5))}
    assert chosen == {0, 1, 2}  # each visit makes the others more attractive
    assert int(agent.best(seen[None])[0]) == greedy


def test_the_target_network_is_copied_every_so_many_updates_and_has_noise_of_its_own() -> None:
    agent = learner(target_every=3, first_update=1, updates_per_step=2.0)
    replay, rng = started(agent)
    kept = {name: x.detach().clone() for name, x in agent.network.named_parameters()}
    for n_updates in range(7):
        if n_updates % 3 == 1:  # the period counts the two updates that step 1 would have had
            kept = {name: x.detach().clone() for name, x in agent.network.named_parameters()}
        train(agent, replay, 1, rng)
        for name, x in agent.target.named_parameters():
            assert torch.equal(x, kept[name])
        assert not torch.equal(agent.network.head.first.noise_in, agent.target.head.first.noise_in)


class Passes:
    """What goes through the networks of an agent in its next update."""

    def __init__(self, agent: Rainbow):
        self.seen: list[torch.Tensor] = []  # inputs of the online encoder
        self.noise: list[torch.Tensor] = []  # of the heads: evaluating, selecting, learning
        self.actions: list[torch.Tensor] = []  # selected in s_{t+n}
        agent.network.encoder.register_forward_pre_hook(lambda _, x: self.seen.append(x[0]))
        for head in {agent.network.head, agent.target.head}:
            head.register_forward_pre_hook(lambda own, _: self.noise.append(own.first.noise_in))
        select = agent._next_actions

        def selecting(*given: torch.Tensor) -> torch.Tensor:
            self.actions.append(select(*given))
            return self.actions[-1]

        agent._next_actions = selecting  # type: ignore[method-assign]


@pytest.mark.parametrize("target_every", [1, 3])
@pytest.mark.parametrize("draws", ["per-update", "per-pass"])
def test_the_passes_of_double_dqn_differ_in_noise(target_every: int, draws: str) -> None:
    """Once both passes were the same where the target network is copied after every update."""
    agent = learner(**SPR, target_every=target_every, noise_draws=draws)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    passes = Passes(agent)
    agent.update(replay, draw(agent, replay, rng))
    evaluating, selecting, learning = passes.noise
    assert torch.equal(evaluating, selecting) == (draws == "per-pass")
    assert torch.equal(selecting, learning) == (draws == "per-update")
    assert not torch.equal(evaluating, learning)


def test_the_selecting_pass_has_its_own_view_and_its_argmax_is_bootstrapped_from() -> None:
    agent = learner(shape=(1, 40, 40), stack=2, hidden=4, **SPR)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    passes, before = Passes(agent), deepcopy(agent.network)
    batch = draw(agent, replay, rng)
    agent.update(replay, batch)
    _, later, view = passes.seen
    assert view.shape == (6, 2, 40, 40)
    plain = agent.inputs.plain(batch.bootstrap)
    for one, other in ((view, later[-6:]), (view, plain), (later[-6:], plain)):
        assert all(not torch.allclose(a, b) for a, b in zip(one, other, strict=True))
    before.head.take_noise(agent.network.head)  # the noise that was drawn in the update
    for sample, action in zip(view, passes.actions[0].tolist(), strict=True):
        probs = before.head(before.encoder(sample[None]))[0].softmax(-1)  # (A, N)
        q = [sum(p * z for p, z in zip(row, before.support, strict=True)) for row in probs]
        assert action == max(range(3), key=lambda a: q[a].item())


def test_both_networks_see_the_same_augmented_bootstrap_with_a_shared_view() -> None:
    agent = learner(
        shape=(1, 40, 40),
        stack=2,
        target_every=2,
        spr_weight=1.0,
        hidden=4,
        double_view="shared",
    )
    replay, rng = started(agent)
    seen: dict[str, list[torch.Tensor]] = {"online": [], "target": []}
    for name, network in (("online", agent.network), ("target", agent.target)):
        network.encoder.register_forward_pre_hook(lambda _, x, to=seen[name]: to.append(x[0]))
    batch = draw(agent, replay, rng)
    agent.update(replay, batch)
    now, again = seen["online"]
    (later,) = seen["target"]
    assert now.shape == again.shape == (6, 2, 40, 40)
    assert later.shape == (6 * 2 + 6, 2, 40, 40)
    assert torch.equal(again, later[12:])
    plain = agent.inputs.plain(batch.bootstrap)
    assert not torch.allclose(again, plain)


def test_a_broken_weight_stops_the_update_and_is_named() -> None:
    for bonus in ("none", "paper", "reference", "algorithm-1"):
        agent = learner(**SPR, bonus=BONUSES[bonus].bonus)
        replay, rng = started(agent)
        train(agent, replay, 2, rng)
        with torch.no_grad():
            agent.network.head.advantage.weight[0, 0] = float("nan")
        with pytest.raises(ArithmeticError, match=r"head\.advantage\.weight .* in update 3"):
            agent.update(replay, draw(agent, replay, rng))
        assert agent.n_updates == 2
        with pytest.raises(ArithmeticError, match="after update 2"):
            agent.act(np.ones(4, dtype=np.float32))


def test_a_broken_observation_and_a_broken_gradient_are_named() -> None:
    agent = learner(**SPR)
    replay, rng = started(agent)
    weight = agent.network.head.first.weight
    hook = weight.register_hook(lambda gradient: gradient * float("inf"))
    before = weight.detach().clone()
    with pytest.raises(ArithmeticError, match=r"gradient of head\.first\.weight .* in update 1"):
        agent.update(replay, draw(agent, replay, rng))
    assert torch.equal(weight, before)
    hook.remove()
    replay.history.frame[:] = np.nan
    with pytest.raises(ArithmeticError, match="s_t has a NaN or infinite entry, in update 1"):
        agent.update(replay, draw(agent, replay, rng))


@pytest.mark.parametrize("bonus", ["none", "paper", "reference", "algorithm-1"])
@pytest.mark.parametrize("target_every", [1, 2])
def test_saved_and_loaded_it_goes_on_bit_for_bit(
    bonus: str, target_every: int, tmp_path: Path
) -> None:
    settings = SPR | {"bonus": BONUSES[bonus].bonus, "target_every": target_every}
    straight = learner(**settings)
    replay, rng = started(straight)
    train(straight, replay, 5, rng)
    state = {"agent": straight.state_dict(), "replay": replay.state_dict()}
    saved, there = save_checkpoint(tmp_path, 5, state), deepcopy(rng)
    train(straight, replay, 5, rng)

    loaded = learner(seed=1, **settings)
    state = load_checkpoint(saved)
    loaded.load_state_dict(state["agent"])
    replay = loaded.new_replay()
    replay.load_state_dict(state["replay"])
    train(loaded, replay, 5, there)
    assert_equal(straight.state_dict(), loaded.state_dict())


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    runs = []
    for seed in (3, 3, 4):
        agent = learner(seed=seed, **SPR)
        replay, rng = started(agent)
        train(agent, replay, 3, rng)
        runs.append(agent.network.head.first.weight)
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_other_generators_are_left_alone() -> None:
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    agent = learner(**SPR, bonus=BONUSES["algorithm-1"].bonus)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("shape", "stack"), [((4,), 1), ((4,), 3), ((2, 10, 10), 1), ((1, 40, 40), 4), ((3, 40, 40), 2)]
)
@pytest.mark.parametrize("spr_weight", [0.0, 1.0])
def test_any_frames_without_a_warning(
    shape: tuple[int, ...], stack: int, spr_weight: float
) -> None:
    """torch warns of arrays that it may not write to; views of the replay once were such."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent = learner(shape=shape, stack=stack, spr_weight=spr_weight, hidden=4)
        replay, rng = started(agent)
        train(agent, replay, 2, rng)


def test_bright_images_are_scaled_and_grids_are_not() -> None:
    config = configure("spr", {})
    screen = np.full((1, 4, 84, 84), 255, dtype=np.uint8)
    grid, vector = np.ones((1, 6, 10, 10), dtype=np.uint8), np.full((1, 3), 7, dtype=np.float32)
    assert Inputs((1, 84, 84), 4, config).plain(screen).unique().tolist() == pytest.approx([1.0])
    assert Inputs((6, 10, 10), 1, config).plain(grid).unique().tolist() == [1.0]
    assert Inputs((3,), 1, config).plain(vector).unique().tolist() == [7.0]
    scaled = Inputs((6, 10, 10), 1, configure("spr", {"frame_max": 4.0})).plain(grid)
    assert scaled.unique().tolist() == [0.25]
    assert not Inputs((6, 10, 10), 1, config).augments
    assert not Inputs((1, 84, 84), 4, configure("spr", {"augment": False})).augments


@pytest.mark.parametrize(("channels", "stack"), [(1, 4), (3, 2)])
def test_a_stack_moves_as_one_and_is_brightened_as_one(channels: int, stack: int) -> None:
    """Frames that all show one picture: every channel of the augmented stack is the same again."""
    agent = learner(shape=(channels, 40, 40), stack=stack, spr_weight=1.0, hidden=4)
    replay, rng = started(agent)
    picture = rng.integers(100, 256, (40, 40), dtype=np.uint8)
    replay.history.frame[:-1] = picture
    first = replay.history.at("start", np.arange(replay.history.now))
    batch = draw(agent, replay, rng)
    now, later = agent.inputs.of_batch(batch, rng)
    assert now.shape == (6, stack * channels, 40, 40)
    assert len(later) == 6 * 2 + 6
    old = batch.index - first[batch.index] >= stack  # no blanks in their stacks
    assert old.any()
    for seen in now[torch.from_numpy(old)]:
        assert torch.equal(seen, seen[:1].expand_as(seen))
        assert seen.max() <= 1.1
    assert len({float(seen[-1].sum()) for seen in now}) == 6  # each its own shift and brightness


def test_it_learns_to_dive() -> None:
    """DeepSea-4: uniform actions find the treasure once in 16 dives, a bonus makes it a habit."""
    env = DeepSeaGrid(4, seed=1)
    settings = {"bonus.preset": "algorithm-1", "hidden": 32, "mlp": (32,), "jumps": 1}
    settings |= {"bonus.rebuild_every": 5}
    config = configure("spr-ucb", settings, env.frame_shape)
    agent = Rainbow(config, env.frame_shape, env.stack, env.n_actions, env.value_range, seed=1)
    replay, rng, returns = agent.new_replay(), np.random.default_rng(0), []
    for step in range(400):
        if not replay.history.running:
            replay.begin(env.reset())
        action, extras = agent.act(replay.observation())
        after = env.step(action)
        replay.add(action, after.reward, after.frame, after.terminated, after.truncated, **extras)
        if after.episode_over:
            returns.append(env.raw_return)
        if step >= 40:
            agent.update(replay, replay.sample(rng.random(32), 0.5))
    assert np.mean(np.array(returns[-20:]) > 0.5) > 0.5
