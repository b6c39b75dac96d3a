"""`ObservationFeatures`: what the policies of Stable-Baselines3 see."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from contrastive_ucb.core.errors import UserError

pytest.importorskip("stable_baselines3")
from stable_baselines3 import PPO
from stable_baselines3.common.preprocessing import preprocess_obs

from contrastive_ucb.bonus.sb3 import OBSERVATION_FEATURES, ObservationFeatures

GRID = spaces.Box(0, 255, (3, 4, 2), np.uint8)


def test_a_grid_is_one_hot() -> None:
    views = np.random.default_rng(0).integers(0, 12, (5, *GRID.shape), np.uint8)
    features = ObservationFeatures(GRID)
    rows = features(torch.from_numpy(views))
    codes = views.reshape(5, -1)
    expected = np.zeros((5, codes.shape[1], 16), np.float32)
    for at in np.ndindex(codes.shape):
        expected[(*at, codes[at])] = 1
    np.testing.assert_array_equal(rows.numpy(), expected.reshape(5, -1))
    assert features.features_dim == rows.shape[1]


def test_a_normalized_grid_is_an_error() -> None:
    views = torch.full((2, *GRID.shape), 3.0) / 255
    with pytest.raises(UserError, match="normalize_images=False"):
        ObservationFeatures(GRID)(views)


def test_parts_are_side_by_side_and_discrete_ones_are_encoded_once() -> None:
    space = spaces.Dict({"b": spaces.Discrete(3), "c": spaces.Box(0, 10, (2,), np.float32)})
    raw = {"b": torch.tensor([2, 0]), "c": torch.tensor([[0.0, 10.0], [5.0, 2.5]])}
    rows = ObservationFeatures(space)(preprocess_obs(raw, space, normalize_images=False))
    expected = [[0, 0, 1, -1, 1], [1, 0, 0, 0, -0.5]]
    np.testing.assert_allclose(rows.numpy(), expected)


@pytest.mark.parametrize("name", ["MiniGrid-Empty-5x5-v0", "FrozenLake-v1", "CartPole-v1"])
def test_ppo_learns_with_them(name: str) -> None:
    if name.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
        from minigrid.wrappers import ImgObsWrapper

        env = ImgObsWrapper(gymnasium.make(name))
    else:
        env = gymnasium.make(name)
    model = PPO(
        "MlpPolicy", env, n_steps=32, batch_size=32, policy_kwargs=OBSERVATION_FEATURES, seed=0
    )
    before = [weight.clone() for weight in model.policy.parameters()]
    model.learn(32)
    assert any(
        (old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True)
    )
    action, _ = model.predict(env.reset(seed=0)[0])
    assert env.action_space.contains(int(action))
