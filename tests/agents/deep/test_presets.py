"""Presets: the published settings, layers of defaults, and errors."""

from dataclasses import replace
from typing import Any

import pytest

from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.agents.deep.presets import (
    BONUSES,
    DEEP_PRESETS,
    FRAME_SETTINGS,
    SPR_RELEASE,
    configure,
)

ATARI, MINATAR, VECTOR = (1, 84, 84), (4, 10, 10), (100,)


# Published settings of DER, OTRainbow, DrQ, DrQ(eps), CURL, SPR.
TABLE: dict[str, tuple[Any, ...]] = {
    "n_step": (10, 3, 10, 10, 20, 10),
    "first_update": (1600, 20_000, 1600, 1600, 1600, 2000),
    "updates_per_step": (1, 8, 1, 1, 1, 2),
    "target_every": (2000, 4000, 1, 1, 2000, 1),  # in updates
    "noisy": (0.1, 0, 0, 0, 0.1, 0.5),
    "epsilon": ((0, 0), (1, 0.01), (1, 0.1), (1, 0.01), (0, 0), (1, 0)),
    "eval_epsilon": (0.001, 0.001, 0.05, 0.001, 0.001, 0.001),
    "dueling": (True, False, True, True, True, True),
    "double": (True, False, True, True, True, True),
    "distributional": (True, True, False, False, True, True),
    "priority_exponent": (0.5, 0.5, 0, 0, 0.5, 0.5),
    "augment": (False, False, True, True, False, True),
    "encoder": (*["atari-same"] * 4, "data-efficient", "auto"),
    "initializer": (*["xavier"] * 4, "torch", "torch"),
    "atari": (*["dopamine"] * 4, "curl-release", "standard"),
    "new_priority": (*["largest"] * 5, "one"),
    "clip_norm": (0, 0, 0, 0, 10, 10),
    "largest_offset": (8, 8, 7, 7, 8, 8),
    "double_view": ("own", "own", "shared", "shared", "own", "own"),
    "importance": (*[(0.5, 0.5)] * 4, (0.4, 1.0), (0.4, 1.0)),
    "hidden": (512, 512, 512, 512, 256, 256),
    "streams": (1, 1, 1, 1, 2, 2),
    "learning_rate": (1e-4, 6.25e-5, 1e-4, 1e-4, 1e-4, 1e-4),
    "curl_weight": (0, 0, 0, 0, 1, 0),
    "spr_weight": (0, 0, 0, 0, 0, 5),
}
EPSILON_STEPS = {"otr": 50_000, "drq": 5000, "drq-eps": 5000}


def test_reference_preset_applies_release_settings_to_spr_only() -> None:
    released = configure("spr-ucb", {"bonus.preset": "reference"})
    for name, value in SPR_RELEASE.items():
        assert getattr(released, name) == value
        assert getattr(configure("spr-ucb", {}), name) != value
    without = configure("spr", {"bonus.preset": "reference", "bonus.scale": 0.0})
    assert replace(without, bonus=released.bonus) == released
    der = configure("der", {"bonus.preset": "reference"})
    assert (der.cut, der.atari, der.draws) == ("published", "dopamine", "stratified")


@pytest.mark.parametrize("name", TABLE)
def test_settings_equal_the_published_table(name: str) -> None:
    agents = ("der", "otr", "drq", "drq-eps", "curl", "spr")
    assert tuple(getattr(configure(algo, {}, ATARI), name) for algo in agents) == TABLE[name]


@pytest.mark.parametrize(("algo", "length"), EPSILON_STEPS.items())
def test_epsilon_steps_scale_with_the_length_of_runs(algo: str, length: int) -> None:
    assert configure(algo, {}).epsilon_steps == length
    # Runs on MinAtar are a tenth as long, those with vectors a twentieth.
    assert configure(algo, {}, MINATAR).epsilon_steps == length // 10
    assert configure(algo, {}, VECTOR).epsilon_steps == length // 20


def test_target_every_scales_with_the_length_of_runs() -> None:
    assert configure("der", {}, MINATAR).target_every == 200
    assert configure("otr", {}, VECTOR).target_every == 25  # 500 steps / 20, one update per step
    assert configure("rainbow", {}, MINATAR).target_every == 200
    assert configure("spr", {}, MINATAR).target_every == 1


def test_curl_weight_is_lower_in_four_games() -> None:
    games = ("Pong", "Boxing", "PrivateEye", "Freeway", "Qbert")
    weights = [configure("curl", {}, ATARI, game).curl_weight for game in games]
    assert weights == [0.01] * 4 + [1.0]
    assert configure("curl", {"curl_weight": 2.0}, ATARI, "Pong").curl_weight == 2.0
    assert configure("der", {}, ATARI, "Pong").curl_weight == 0


def test_spr_ucb_is_spr_with_the_paper_bonus() -> None:
    config = configure("spr-ucb", {})
    assert config.bonus == BONUSES["paper"].bonus == BonusConfig(scale=1.0, ridge=1.0)
    assert configure("spr-ucb", {"bonus.preset": "none"}) == configure("spr", {})


@pytest.mark.parametrize("shape", [ATARI, MINATAR, VECTOR], ids=str)
@pytest.mark.parametrize("algo", DEEP_PRESETS)
@pytest.mark.parametrize("bonus", BONUSES)
def test_all_combinations_are_valid(algo: str, bonus: str, shape: tuple[int, ...]) -> None:
    config = configure(algo, {"bonus.preset": bonus, "hidden": 33}, shape)
    assert config.hidden == 33
    feature = BONUSES[bonus].bonus.feature if config.distributional else "hidden"
    assert config.bonus.feature == feature


def test_frame_defaults_and_overrides() -> None:
    small = configure("spr-ucb", {}, VECTOR)
    assert (small.hidden, small.mlp, small.n_step) == (64, (64,), 1)
    assert small.bonus.room == FRAME_SETTINGS["mlp"]["bonus.room"]
    own = configure("spr-ucb", {"n_step": 7, "bonus.room": 1.0}, VECTOR)
    assert (own.n_step, own.bonus.room, own.hidden) == (7, 1.0, small.hidden)
    assert configure("spr", {}, MINATAR).hidden == 128
    for algo in DEEP_PRESETS:
        config = configure(algo, {})
        assert configure(algo, {}, ATARI) == config


def test_bonus_setting_without_a_bonus_raises() -> None:
    with pytest.raises(ValueError, match=r"bonus.feature=hidden has no effect without a bonus"):
        configure("spr", {"bonus.feature": "hidden"}, ATARI)
    assert configure("spr", {"bonus.feature": "probs"}, ATARI) == configure("spr", {})
    assert configure("spr", {"bonus.feature": "hidden", "bonus.scale": 1.0}, ATARI).bonus.is_on


@pytest.mark.parametrize(
    ("algo", "settings", "message"),
    [
        ("spr-ubc", {}, "no agent is called 'spr-ubc'; did you mean 'spr-ucb'"),
        ("xyz", {}, "choose from rainbow, der, otr, drq, drq-eps, curl, spr, spr-ucb"),
        ("spr", {"n_steps": 3}, "no setting is called 'n_steps'; did you mean 'n_step'"),
        ("spr", {"bonus.sale": 3}, "no setting is called 'bonus.sale'; did you mean 'bonus.scale'"),
        ("spr", {"bonus": 3}, "no setting is called 'bonus'"),
        ("spr", {"bonus.presett": "paper"}, "did you mean 'bonus.preset'"),
        ("spr", {"bonus.preset": "papers"}, "no bonus is called 'papers'; did you mean 'paper'"),
    ],
)
def test_unknown_names_get_a_suggestion(algo: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure(algo, settings)


@pytest.mark.parametrize(("cells", "width"), [(4, 64), (196, 98), (400, 200), (10_000, 512)])
def test_network_size_for_vectors(cells: int, width: int) -> None:
    config = configure("spr-ucb", {}, (cells,))
    assert (config.hidden, config.mlp) == (width, (width,))
    assert configure("spr-ucb", {"hidden": 7}, (cells,)).hidden == 7
