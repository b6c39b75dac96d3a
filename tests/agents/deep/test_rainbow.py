"""The learner: updates against a slow oracle, noise, errors, resume, and learning."""

import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agents.deep.rainbow_oracle import first_update
from agents.deep_play import assert_equal, draw, learner, started, train

from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.agents.deep.presets import BONUSES, configure
from contrastive_ucb.agents.deep.rainbow import Rainbow
from contrastive_ucb.agents.deep.trainer import Trainer
from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint
from contrastive_ucb.envs.deepsea import DeepSeaGrid

SPR: dict[str, Any] = {"spr_weight": 2.0}
CURL: dict[str, Any] = {"curl_weight": 0.5, "priority": "loss", "frame_max": 255.0}


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
        CURL,
        CURL | {"clip_norm": 0.05},
    ],
    ids=str,
)
def test_update_equals_oracle(settings: dict[str, Any]) -> None:
    # With a small epsilon, Adam's first step is only the sign of the gradient.
    shape = (2, 5, 5) if "curl_weight" in settings else (4,)
    agent = learner(shape=shape, **settings, learning_rate=1.0, adam_eps=1.0)
    replay, rng = started(agent)
    replay.update_priorities(replay.drawable(), rng.random(len(replay)))
    batch = draw(agent, replay, rng)
    assert 0 in batch.discounts  # includes a termination
    assert len(set(batch.weights.tolist())) == 6
    other = learner(seed=1, shape=shape, **settings).network
    if agent.target is not agent.network:  # no copy is due in the second update
        agent.target.load_state_dict(other.state_dict())
        agent.n_updates = 1
    if agent.lagged is not None:
        agent.lagged.load_state_dict(Rainbow._spr_target_parts(other).state_dict())
    weights, target = deepcopy(agent.network), deepcopy(agent.target)
    crops = agent.inputs.crops(batch, deepcopy(agent.streams["augment"])) if shape != (4,) else ()
    agent.update(replay, batch)
    noise = {name: x for name, x in agent.network.state_dict().items() if "noise" in name}
    weights.load_state_dict(noise, strict=False)
    assert not torch.equal(weights.head.first.noise_in, target.head.first.noise_in)
    lagged = target if agent.lagged is None else other
    pairs = list(zip(*crops, strict=True))
    expected, priorities = first_update(weights, target, lagged, agent.config, batch, pairs)
    found = agent.network.state_dict()
    for name, x in expected.items():
        assert torch.allclose(found[name], x, rtol=0, atol=1e-5), name
    leaves = replay.tree.get(batch.index % replay.history.slots)
    latest = {at: max(p, 1e-6) ** 0.5 for at, p in zip(batch.index, priorities, strict=True)}
    assert leaves == pytest.approx([latest[at] for at in batch.index], rel=1e-3)


def test_target_includes_discounted_bonus_of_next_action() -> None:
    """With scalar values the target is r + b + gamma^n (Q + bonus)(s', a')."""
    bonus = BonusConfig(
        feature="hidden", pairs="visits", scale=3.0, ridge=0.5, optimistic=True, rebuild_every=0
    )
    agent = learner(distributional=False, noisy=0.0, bonus=bonus)
    replay, rng = started(agent)
    batch = draw(agent, replay, rng)
    assert agent.bonus is not None
    _, later = agent.inputs.of_batch(batch, rng)
    latent = agent.network.encoder(agent.inputs.plain(batch.frames[:, 0]))
    found, _, n_step = agent._target(replay, batch, later, latent)
    latent = agent.network.encoder(torch.from_numpy(batch.bootstrap))
    q, width = agent.network.head(latent)[:, :, 0], agent.bonus.of_all(latent)
    changed = 0
    for i in range(len(q)):
        best = int((q[i] + width[i]).argmax())
        changed += best != int(q[i].argmax())
        ahead = q[i, best] + width[i, best]
        target = batch.returns[i] + n_step[i] + batch.discounts[i] * ahead
        assert found[i, 0].item() == pytest.approx(target.item(), rel=1e-5)
    assert changed > 0
    assert 0 in batch.discounts


def test_optimistic_agent_acts_on_q_plus_bonus_and_is_evaluated_without() -> None:
    bonus = BonusConfig(feature="hidden", pairs="visits", scale=100.0, optimistic=True)
    agent = learner(noisy=0.0, bonus=bonus)
    seen = np.ones(4, dtype=np.float32)
    greedy = int(agent.best(seen[None])[0])
    first, extras = agent.act(seen)
    assert extras["feature"].shape == (12,)
    chosen = {first, *(agent.act(seen)[0] for _ in range(5))}
    assert chosen == {0, 1, 2}  # every visit reduces the bonus of its action
    assert int(agent.best(seen[None])[0]) == greedy


def test_target_network_is_copied_periodically_and_has_its_own_noise() -> None:
    agent = learner(target_every=3, first_update=1, updates_per_step=2.0)
    replay, rng = started(agent)
    kept = {name: x.detach().clone() for name, x in agent.network.named_parameters()}
    for n_updates in range(7):
        if n_updates % 3 == 1:  # the period includes two updates at step 1
            kept = {name: x.detach().clone() for name, x in agent.network.named_parameters()}
        train(agent, replay, 1, rng)
        for name, x in agent.target.named_parameters():
            assert torch.equal(x, kept[name])
        assert not torch.equal(agent.network.head.first.noise_in, agent.target.head.first.noise_in)


class Passes:
    """Records inputs, noise and selected actions of the next update."""

    def __init__(self, agent: Rainbow):
        self.seen: list[torch.Tensor] = []  # inputs of the online encoder
        self.noise: list[torch.Tensor] = []  # of the heads: evaluating, selecting, learning
        self.actions: list[torch.Tensor] = []  # selected in s_{t+n}
        agent.network.encoder.register_forward_pre_hook(lambda _, x: self.seen.append(x[0]))
        for head in {agent.network.head, agent.target.head}:
            head.register_forward_pre_hook(lambda head, _: self.noise.append(head.first.noise_in))
        select = agent._next_actions

        def selecting(*given: torch.Tensor) -> torch.Tensor:
            self.actions.append(select(*given))
            return self.actions[-1]

        agent._next_actions = selecting  # type: ignore[method-assign]


@pytest.mark.parametrize("target_every", [1, 3])
@pytest.mark.parametrize("draws", ["per-update", "per-pass"])
def test_passes_of_double_dqn_differ_in_noise(target_every: int, draws: str) -> None:
    """Regression: with target_every=1 both passes were equal."""
    agent = learner(**SPR, target_every=target_every, noise_draws=draws)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    passes = Passes(agent)
    agent.update(replay, draw(agent, replay, rng))
    evaluating, selecting, learning = passes.noise
    assert torch.equal(evaluating, selecting) == (draws == "per-pass")
    assert torch.equal(selecting, learning) == (draws == "per-update")
    assert not torch.equal(evaluating, learning)


def test_selecting_pass_has_its_own_augmentation() -> None:
    agent = learner(shape=(1, 40, 40), stack=2, hidden=4, **SPR)
    replay, rng = started(agent)
    train(agent, replay, 2, rng)
    passes, before = Passes(agent), deepcopy(agent.network)
    batch = draw(agent, replay, rng)
    agent.update(replay, batch)
    _, later, view = passes.seen
    assert view.shape == (6, 2, 40, 40)
    plain = agent.inputs.plain(batch.bootstrap)
    for left, right in ((view, later[-6:]), (view, plain), (later[-6:], plain)):
        assert all(not torch.allclose(a, b) for a, b in zip(left, right, strict=True))
    before.head.take_noise(agent.network.head)  # the noise of the update
    for sample, action in zip(view, passes.actions[0].tolist(), strict=True):
        probs = before.head(before.encoder(sample[None]))[0].softmax(-1)  # (A, N)
        q = [sum(p * z for p, z in zip(row, before.support, strict=True)) for row in probs]
        assert action == max(range(3), key=lambda a: q[a].item())


def test_shared_view_uses_one_augmentation_for_both_networks() -> None:
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


def test_nan_weight_is_named() -> None:
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


def test_nan_observation_and_infinite_gradient_are_named() -> None:
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
def test_resumed_learner_equals_uninterrupted_one(
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


def test_global_generators_are_not_used() -> None:
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
def test_frame_shapes_train_without_torch_warnings(
    shape: tuple[int, ...], stack: int, spr_weight: float
) -> None:
    """Regression: torch warned about read-only views of the replay memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent = learner(shape=shape, stack=stack, spr_weight=spr_weight, hidden=4)
        replay, rng = started(agent)
        train(agent, replay, 2, rng)


def test_learns_deepsea() -> None:
    """Uniform actions reach the reward of DeepSea with N = 4 in one of 16 episodes."""
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


def test_nan_values_raise() -> None:
    agent = learner()
    blind = np.full((1, 4), np.nan, dtype=np.float32)
    for act in (lambda: agent.best(blind), lambda: agent.act(blind[0])):
        with pytest.raises(ArithmeticError, match="all weights are; check the observation"):
            act()
    agent.network.head.advantage.bias.data[0] = np.inf
    with pytest.raises(ArithmeticError, match=r"head.advantage.bias is not finite after update 0"):
        agent.act(np.ones(4, dtype=np.float32))


def test_every_greedy_action_before_the_first_update_has_new_noise() -> None:
    """Regression: one draw for the whole warm-up was one deterministic policy."""
    agent = learner(noisy=2.0, epsilon=(0.0, 0.0))
    seen = np.ones(4, dtype=np.float32)
    assert {agent.act(seen)[0] for _ in range(50)} == {0, 1, 2}
    replay, rng = started(agent)
    train(agent, replay, 1, rng)
    assert len({agent.act(seen)[0] for _ in range(50)}) == 1  # the same noise until the next update


def test_support_includes_bonus_room_only_with_a_bonus() -> None:
    supports = {}
    for algo in ("spr", "spr-ucb"):
        agent = Rainbow(configure(algo, {}, (25,)), (25,), 1, 2, (0.0, 1.0), seed=0)
        supports[algo] = agent.network.support[[0, -1]].tolist()
    assert supports == {"spr": [0.0, 1.0], "spr-ucb": [0.0, 5.0]}


def test_importance_exponent_increases_from_first_update_to_last_step() -> None:
    env = DeepSeaGrid(5, seed=0)
    settings = {"first_update": 10, "importance": (0.4, 1.0), "hidden": 8, "mlp": (8,)}
    trainer: Any = Trainer(env, configure("spr", settings, env.frame_shape), seed=0, steps=40)
    sample, exponents = trainer.replay.sample, dict[int, float]()

    def recorded(uniforms: Any, exponent: float) -> Any:
        exponents[trainer.n_steps] = exponent
        return sample(uniforms, exponent)

    trainer.replay.sample = recorded
    for _ in trainer.run(40):
        pass
    assert min(exponents) < 20
    for step, exponent in exponents.items():
        assert exponent == pytest.approx(0.4 + 0.6 * (step - 10) / 30)
