"""Settings of bonuses as data."""

import json
from dataclasses import asdict

import gymnasium
import numpy as np
import pytest

from contrastive_ucb.agents.ppo.config import configure_ppo
from contrastive_ucb.bonus import BONUS_NAMES, make_bonus
from contrastive_ucb.bonus.base import Training
from contrastive_ucb.bonus.config import IntrinsicConfig, bonus_settings, setting_kind
from contrastive_ucb.core.errors import UserError

GRID = gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8)
ACTIONS = gymnasium.spaces.Discrete(3)


@pytest.mark.parametrize("name", sorted(BONUS_NAMES))
def test_the_resolved_settings_make_the_same_bonus(name):
    config = IntrinsicConfig.of({"bonus": name, "scope": "product"})
    assert IntrinsicConfig.of(json.loads(json.dumps(config.flat))) == config
    intrinsic = config.make(GRID, ACTIONS, n_envs=2, seed=3)
    plain = make_bonus(name, GRID, ACTIONS, n_envs=2, seed=3, scope="product")
    rng = np.random.default_rng(0)
    obs, after = rng.integers(0, 9, (2, 2, 7, 7, 3), np.uint8)
    np.testing.assert_array_equal(
        intrinsic.bonus.compute(obs, [0, 1], after), plain.compute(obs, [0, 1], after)
    )
    assert intrinsic.bonus.training == plain.training


def test_settings_are_completed_and_typed():
    given = {"bonus": "contrastive", "dim": 16.0, "learning_rate": 1, "hidden": [32, 32]}
    config = IntrinsicConfig.of(given)
    assert config.settings["dim"] == 16
    assert isinstance(config.settings["learning_rate"], float)
    assert config.settings["hidden"] == (32, 32)
    assert config.settings["batch_size"] == Training().batch_size
    assert not {"seed", "n_envs", "device", "encoder", "training"} & config.settings.keys()
    assert config.text == "contrastive dim=16 hidden=(32, 32) learning_rate=1.0"
    assert asdict(config)["settings"] == config.settings


def test_flat_training_settings_change_only_themselves():
    training = Training(every=64, steps=2)
    bonus = make_bonus("contrastive", GRID, ACTIONS, training=training, learning_rate=0.5)
    assert bonus.training == Training(every=64, steps=2, learning_rate=0.5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bonus": "contrastiv"}, ["contrastiv", "did you mean 'contrastive'"]),
        ({"bonus": "contrastive", "dimm": 3}, ["dimm", "did you mean 'dim'"]),
        ({"bonus": "contrastive", "scope": "life"}, ["intrinsic.scope", "lifelong", "'life'"]),
        ({"bonus": "contrastive", "dim": 1.5}, ["intrinsic.dim", "whole number", "1.5"]),
        ({"scale": -1.0}, ["intrinsic.scale", "at least 0", "-1"]),
        ({"scale": float("nan")}, ["intrinsic.scale", "nan"]),
        ({"dim": 3}, ["intrinsic.bonus=none", "dim"]),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises((UserError, ValueError)) as error:
        IntrinsicConfig.of(settings)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_every_setting_can_be_read_from_text():
    for name in BONUS_NAMES:
        for key, (kind, _) in bonus_settings(name).items():
            assert setting_kind(key, name) == kind, key


def test_a_misspelled_setting_of_ppo_names_those_of_its_bonus():
    with pytest.raises(ValueError, match=r"called 'bonus.preset'; .*intrinsic\.bonus"):
        configure_ppo({"bonus.preset": "explorer"})
