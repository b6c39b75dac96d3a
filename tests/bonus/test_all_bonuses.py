"""What holds for every bonus of the toolkit."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from bonus_data import (
    ACTIONS,
    SCOPES,
    SHORT,
    SPACES,
    TRAINED,
    N,
    make,
    names,
    rows,
    same,
    transitions,
)
from gymnasium import spaces

from contrastive_ucb.bonus import Bonus, Training, make_bonus
from contrastive_ucb.core.errors import UserError

ALL = names()
CASES = [
    *[(name, "grid", scope) for name in ALL for scope in SCOPES],
    *[(name, space, "product") for name in ALL for space in SPACES if space != "grid"],
]


def learned(name: str, *args: Any, **settings: Any) -> Any:
    return make(name, *args, training=SHORT, **settings)


@pytest.mark.parametrize(("name", "space", "scope"), CASES)
def test_step_is_compute_then_observe_and_compute_is_pure(
    name: str, space: str, scope: str
) -> None:
    both, apart = learned(name, space, scope=scope), learned(name, space, scope=scope)
    for obs, actions, next_obs, dones in transitions(space, 8):
        before = apart.state_dict()
        bonus = apart.compute(obs, actions, next_obs)
        assert bonus.shape == (N,)
        assert bonus.dtype == np.float64
        assert (bonus >= 0).all()
        assert np.array_equal(apart.compute(obs, actions, next_obs), bonus)
        assert same(apart.state_dict(), before)
        apart.observe(obs, actions, next_obs, dones)
        assert not same(apart.state_dict(), before)
        assert np.array_equal(both.step(obs, actions, next_obs, dones), bonus)
    assert same(both.state_dict(), apart.state_dict())


@pytest.mark.parametrize(("name", "space", "scope"), CASES)
def test_a_loaded_bonus_continues_bit_for_bit(name: str, space: str, scope: str) -> None:
    steps = list(transitions(space, 16))
    one = learned(name, space, scope=scope)
    for step in steps[:8]:
        one.step(*step)
    state = one.state_dict()
    expected = [one.step(*step) for step in steps[8:]]
    loaded = learned(name, space, scope=scope, seed=5)
    loaded.load_state_dict(state)
    assert same([loaded.step(*step) for step in steps[8:]], expected)
    assert same(loaded.state_dict(), one.state_dict())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scope", SCOPES)
def test_the_seed_determines_every_bit(name: str, scope: str) -> None:
    def run(seed: int) -> list[Any]:
        more = {"keys": "hash", "bits": 3} if name == "counts" else {}
        bonus = learned(name, scope=scope, seed=seed, **more)
        return [bonus.step(*step) for step in transitions("grid", 9)]

    assert same(run(0), run(0))
    assert not same(run(0), run(1))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("space", ["grid", "vector", "dict"])
def test_permuted_environments_have_permuted_bonuses(name: str, scope: str, space: str) -> None:
    order = np.array([2, 0, 3, 1])
    plain, permuted = make(name, space, scope=scope), make(name, space, scope=scope)
    for obs, actions, next_obs, dones in transitions(space, 6):
        bonus = plain.step(obs, actions, next_obs, dones)
        turned = rows(obs, order), actions[order], rows(next_obs, order), dones[order]
        np.testing.assert_allclose(permuted.step(*turned, env_ids=order), bonus[order], rtol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_rows_with_env_ids_are_independent(name: str) -> None:
    bonus = make(name, scope="product")
    for step in transitions("grid", 6):
        bonus.step(*step)
    (obs, actions, next_obs, dones), *_ = transitions("grid", 1, seed=1)
    expected = bonus.compute(obs, actions, next_obs)
    for ids in ([1], [3, 0], [2, 2]):
        part = rows(obs, ids), actions[ids], rows(next_obs, ids)
        got = bonus.compute(*part, env_ids=np.array(ids))
        np.testing.assert_allclose(got, expected[ids], rtol=1e-4)
    untouched = make(name, scope="episodic")
    first = untouched.compute(obs, actions, next_obs)
    ids = np.array([0, 3])
    untouched.observe(obs[ids], actions[ids], next_obs[ids], dones[ids] | False, env_ids=ids)
    again = untouched.compute(obs, actions, next_obs)
    np.testing.assert_array_equal(again[[1, 2]], first[[1, 2]])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("space", ["grid", "binary", "vector", "discrete"])
def test_the_lifelong_bonus_decreases_with_visits(name: str, space: str) -> None:
    obs, actions, next_obs, _ = next(transitions(space, 1))
    repeated = (obs, actions, next_obs, np.ones(N, bool))
    every_step = Training(every=N, steps=4, batch_size=16, learning_rate=1e-3, memory=40)
    more = {"training": every_step} if name in ("rnd", "icm", "disagreement") else {}
    bonus = make(name, space, scope="lifelong", **more)
    means = [bonus.step(*repeated).mean() for _ in range(60)]
    assert 0 < means[20] < means[0]
    assert means[-1] < 0.5 * means[0]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("space", ["grid", "binary", "vector", "discrete"])
def test_the_episodic_bonus_decreases_within_an_episode_only(name: str, space: str) -> None:
    obs, actions, next_obs, _ = next(transitions(space, 1))
    bonus = make(name, space, scope="episodic")
    running, ended = np.zeros(N, bool), np.array([True, False, True, False])
    first = bonus.step(obs, actions, next_obs, running)
    second = bonus.step(obs, actions, next_obs, ended)
    third = bonus.compute(obs, actions, next_obs)
    assert (second < first).all()
    np.testing.assert_allclose(third[ended], first[ended], rtol=1e-5)
    assert (third[~ended] <= second[~ended]).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("space", ["grid", "vector", "dict"])
def test_the_product_is_the_product_of_both_parts(name: str, space: str) -> None:
    each = [make(name, space, scope=scope) for scope in SCOPES]
    for step in transitions(space, 6):
        lifelong, episodic, product = [bonus.step(*step) for bonus in each]
        np.testing.assert_allclose(product, lifelong * episodic, rtol=1e-12)
    np.testing.assert_array_equal(each[2].lifelong(*step[:3]), each[0].lifelong(*step[:3]))


class Flat(torch.nn.Module):
    """A user's encoder of grids with values up to 10."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(18, 6)
        with torch.no_grad():
            for p in self.layer.parameters():
                p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape).sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1) / 5 - 1).tanh()


@pytest.mark.parametrize("name", ALL)
def test_a_users_encoder_is_used_and_not_changed(name: str) -> None:
    encoder = Flat()
    before = [p.clone() for p in encoder.parameters()]
    bonus = learned(name, encoder=encoder, scope="product")
    bonuses = [bonus.step(*step) for step in transitions("grid", 9)]
    assert all(map(torch.equal, before, encoder.parameters()))
    assert all(p.requires_grad and p.grad is None for p in encoder.parameters())
    assert np.isfinite(bonuses).all()
    (obs, actions, next_obs, _), (_, _, other, _) = transitions("grid", 2, seed=3)
    constant = torch.nn.Sequential(encoder, torch.nn.Linear(6, 6))
    torch.nn.init.zeros_(constant[1].weight)
    blind, seeing = (make(name, encoder=x, scope="product") for x in (constant, encoder))
    for bonus in (blind, seeing):
        bonus.step(obs, actions, next_obs, np.zeros(N, bool))
    for bonus, is_equal in ((blind, True), (seeing, False)):
        pair = bonus.compute(obs, actions, next_obs), bonus.compute(obs, actions, other)
        assert np.array_equal(*pair) == is_equal


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("layer", [torch.nn.Dropout(), torch.nn.BatchNorm1d(6)])
def test_an_encoder_whose_features_are_noisy_is_an_error(name: str, layer: torch.nn.Module) -> None:
    encoder = torch.nn.Sequential(Flat(), layer).train()
    with pytest.raises(UserError, match=r"encoder\.eval\(\)"):
        make(name, encoder=encoder)
    bonus = learned(name, encoder=encoder.eval(), scope="product")
    for obs, actions, next_obs, dones in transitions("grid", 5):
        bonuses = [bonus.compute(obs, actions, next_obs) for _ in range(2)]
        assert np.array_equal(*bonuses)
        assert np.array_equal(bonuses[0], bonus.step(obs, actions, next_obs, dones))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("box", [spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2, 2))])
def test_continuous_actions(name: str, box: spaces.Box) -> None:
    bonus = learned(name, "vector", action_space=box, scope="product")
    for step in transitions("vector", 9, actions=box):
        assert np.isfinite(bonus.step(*step)).all()
    obs, actions, next_obs, _ = step
    values = bonus.compute(obs, actions, next_obs), bonus.compute(obs, -actions, next_obs)
    assert np.array_equal(*values) == (
        name in ("contrastive", "elliptical", "counts", "rnd", "e3b")
    )
    if name in ("elliptical", "counts"):
        with pytest.raises(UserError, match="Discrete"):
            make(name, "vector", action_space=box, of="pair")


@pytest.mark.parametrize("name", ALL)
def test_bad_input_is_an_error_with_a_remedy(name: str) -> None:
    bonus = make(name, "vector", scope="product")
    obs, actions, next_obs, dones = next(transitions("vector", 1))
    with_nan = next_obs.copy()
    with_nan[1, 0] = np.nan
    bad: list[tuple[Any, ...]] = [
        (obs, actions, with_nan, "NaN.*check the environment"),
        (obs[0], actions, next_obs, r"shape \(n, 2\).*\[None\]"),
        (obs, actions, next_obs[:, :1], r"shape \(n, 2\)"),
        (obs, actions[:2], next_obs, r"actions must have shape \(4,\)"),
        (obs, actions, next_obs[:2], "next_obs must have 4 rows"),
        (obs, actions + 3, next_obs, "actions must be in Discrete"),
        (obs, actions + 0.5, next_obs, r"integers.*astype\(int\)"),
        (obs[:2], actions[:2], next_obs[:2], "n_envs=4.*pass env_ids.*n_envs=2"),
    ]
    for *given, message in bad:
        with pytest.raises(UserError, match=message) as error:
            bonus.compute(*given)
        assert "\n" not in str(error.value)
    for ids, message in (([0, 1, 2, 4], "n_envs=5"), ([0, 1], "4 numbers")):
        with pytest.raises(UserError, match=message):
            bonus.compute(obs, actions, next_obs, env_ids=np.array(ids))
    with pytest.raises(UserError, match="repeat"):
        bonus.observe(obs, actions, next_obs, dones, env_ids=np.array([0, 1, 1, 2]))
    with pytest.raises(UserError, match=r"dones must have shape \(4,\)"):
        bonus.observe(obs, actions, next_obs, dones[:2])


@pytest.mark.parametrize("name", ALL)
def test_the_state_of_another_bonus_is_an_error(name: str) -> None:
    state = make(name, scope="product").state_dict()
    with pytest.raises(UserError, match="n_envs"):
        make(name, scope="product", n_envs=N + 1).load_state_dict(state)
    for other in (*ALL, None):
        if other != name:
            given = {} if other is None else make(other, scope="product").state_dict()
            with pytest.raises(UserError, match=r"this bonus returned|kind"):
                make(name, scope="product").load_state_dict(given)
    with pytest.raises(UserError, match="same arguments"):
        make(name, scope="lifelong").load_state_dict(state)


@pytest.mark.parametrize(
    "other",
    [{"dim": 6}, {"hidden": (7,)}, {"ridge": 2.0}]
    + [{"training": Training(every=3 * N, memory=size)} for size in (10, 1000)],
    ids=str,
)
def test_the_state_of_other_arguments_is_an_error(other: dict[str, Any]) -> None:
    """A larger memory once took the missing transitions as zeros."""
    saved = learned("contrastive")
    for step in transitions("grid", 9):
        saved.step(*step)
    with pytest.raises(UserError, match="make the bonus with the same arguments") as error:
        make("contrastive", **({"training": SHORT} | other)).load_state_dict(saved.state_dict())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", TRAINED)
def test_a_divergent_training_is_an_error(name: str) -> None:
    bonus = make(name, training=Training(every=N, steps=50, batch_size=8, learning_rate=1e30))
    steps = list(transitions("grid", 5))
    with pytest.raises(ArithmeticError, match="reduce the learning rate"):
        _ = [bonus.step(*step) for step in steps]


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:1", torch.device("cuda")])
def test_a_device_that_is_not_there_is_an_error(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"'gpu'.*choose from|finds no CUDA; choose 'cpu'"):
        make("rnd", device=device)
    assert make("rnd", device="auto").device == make("rnd").device == torch.device("cpu")


def test_unknown_names_and_scopes_are_errors() -> None:
    for call in (
        lambda: make_bonus("rdn", SPACES["grid"], ACTIONS),
        lambda: make("rnd", scope="product-ish"),
        lambda: make_bonus("rnd", SPACES["grid"], spaces.MultiBinary(3)),
        lambda: make_bonus("rnd", spaces.Graph(spaces.Discrete(2), None), ACTIONS),
    ):
        with pytest.raises(UserError):
            call()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0"])
def test_small_vectors_visited_states_are_less_novel(name: str, env_id: str) -> None:
    """States at the edge of the space keep a larger bonus than those that a policy visits."""
    env = gymnasium.make(env_id)
    more = {"training": Training(every=64, batch_size=64, memory=1000)} if name in TRAINED else {}
    bonus = make_bonus(name, env.observation_space, env.action_space, scope="lifelong", **more)
    rng, (obs, _) = np.random.default_rng(0), env.reset(seed=0)
    seen, early = [], []
    for step in range(600):
        action = rng.integers(env.action_space.n)
        next_obs, _, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
        value = bonus.step(obs[None], [action], next_obs[None], [done])
        early += list(value) if step < 10 else []
        seen.append((obs, action, next_obs))
        obs = env.reset()[0] if done else next_obs
    visited = [np.array(part) for part in zip(*seen[-100:], strict=True)]
    late = bonus.lifelong(*visited).mean()
    edge = 0.9 * np.minimum(env.observation_space.high, 3.0).astype(np.float32)
    far = bonus.lifelong(edge[None], [0], edge[None])[0]
    assert late < np.mean(early)
    assert far > 1.5 * late


@pytest.mark.parametrize("name", ["contrastive", "elliptical", "rnd", "e3b"])
def test_rare_cells_of_a_grid_have_larger_bonuses(name: str) -> None:
    """One-hot cells, of which cell k is visited with a probability proportional to 2^-k."""
    space, rng = spaces.Box(0, 1, (1, 3, 3), np.bool_), np.random.default_rng(0)
    more = {"training": Training(every=256, memory=2000)} if name in TRAINED else {}
    bonus = make_bonus(name, space, ACTIONS, n_envs=16, scope="lifelong", **more)
    cells = np.eye(9, dtype=bool).reshape(9, 1, 3, 3)
    weights = 0.5 ** np.arange(9)
    cell = np.zeros(16, np.int64)
    for _ in range(300):
        target = rng.choice(9, 16, p=weights / weights.sum())
        bonus.step(cells[cell], 1 + target % 3, cells[target], np.zeros(16, bool))
        cell = target
    values = bonus.lifelong(cells, np.ones(9, int), cells)
    assert np.corrcoef(np.arange(9), values.argsort().argsort())[0, 1] > 0.8
    assert values[-2:].mean() > 1.5 * values[:2].mean()


def test_the_protocol_is_abstract() -> None:
    with pytest.raises(TypeError):
        Bonus(SPACES["grid"], ACTIONS)  # type: ignore[abstract]


@pytest.mark.parametrize("name", ["contrastive", "e3b", "icm", "rnd"])
@pytest.mark.parametrize("hidden", [256, "256", (0,), (8.5,)])
def test_widths_of_layers_are_a_list(name: str, hidden: Any) -> None:
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ValueError, match="hidden"):
        make_bonus(name, env.observation_space, env.action_space, hidden=hidden)
