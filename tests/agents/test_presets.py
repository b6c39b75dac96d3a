from dataclasses import asdict, replace
from typing import Any

import pytest

from contrastive_ucb.agents.deep.config import BonusConfig
from contrastive_ucb.agents.deep.presets import (
    BONUSES,
    DEEP_PRESETS,
    FAMILIES,
    SPR_RELEASE,
    configure,
)
from contrastive_ucb.experiments.training import Training

ATARI, MINATAR, VECTOR = (1, 84, 84), (4, 10, 10), (100,)


def test_spr_on_atari_has_the_published_settings() -> None:
    spr = configure("spr", {}, ATARI)
    assert spr == configure("spr", {}) == DEEP_PRESETS["spr"]
    assert (spr.n_step, spr.discount, spr.jumps, spr.spr_weight) == (10, 0.99, 5, 5.0)
    assert (spr.learning_rate, spr.adam_eps, spr.batch_size, spr.clip_norm) == (
        1e-4,
        1.5e-4,
        32,
        10,
    )
    assert (spr.updates_per_step, spr.first_update, spr.target_every) == (2, 2000, 1)
    assert (spr.epsilon, spr.epsilon_steps, spr.eval_epsilon) == ((1.0, 0.0), 0, 0.001)
    assert (spr.priority_exponent, spr.importance) == (0.5, (0.4, 1.0))
    assert (spr.hidden, spr.streams, spr.noisy, spr.atoms) == (256, 2, 0.5, 51)
    assert spr.augment
    assert not spr.bonus.is_on


# Section 4 of the facts this project was built from, row by row:
# DER, OTRainbow, DrQ, DrQ(eps), CURL, SPR.
TABLE: dict[str, tuple[Any, ...]] = {
    "n_step": (10, 3, 10, 10, 20, 10),
    "first_update": (1600, 20_000, 1600, 1600, 1600, 2000),
    "updates_per_step": (1, 8, 1, 1, 1, 2),
    "target_every": (2000, 4000, 1, 1, 2000, 1),  # in updates; OTRainbow's 500 are steps
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
LENGTHS = {"otr": 50_000, "drq": 5000, "drq-eps": 5000}  # of the way from epsilon to epsilon


def test_reference_sets_the_details_of_the_release_for_spr_only() -> None:
    released = configure("spr-ucb", {"bonus.preset": "reference"})
    for name, value in SPR_RELEASE.items():
        assert getattr(released, name) == value
        assert getattr(configure("spr-ucb", {}), name) != value
    without = configure("spr", {"bonus.preset": "reference", "bonus.scale": 0.0})
    assert replace(without, bonus=released.bonus) == released
    der = configure("der", {"bonus.preset": "reference"})
    assert (der.cut, der.atari, der.draws) == ("published", "dopamine", "stratified")


@pytest.mark.parametrize("name", TABLE)
def test_the_family_is_the_published_table(name: str) -> None:
    agents = ("der", "otr", "drq", "drq-eps", "curl", "spr")
    assert tuple(getattr(configure(algo, {}, ATARI), name) for algo in agents) == TABLE[name]


@pytest.mark.parametrize(("algo", "length"), LENGTHS.items())
def test_random_actions_fade_over_the_published_steps(algo: str, length: int) -> None:
    assert DEEP_PRESETS[algo].epsilon_steps == length
    # MinAtar's runs are a tenth as long, those with vectors a twentieth.
    assert configure(algo, {}, MINATAR).epsilon_steps == length // 10
    assert configure(algo, {}, VECTOR).epsilon_steps == length // 20


def test_target_networks_are_copied_as_often_in_a_run_of_the_family() -> None:
    assert configure("der", {}, MINATAR).target_every == 200
    assert configure("otr", {}, VECTOR).target_every == 25  # 500 steps / 20, an update a step
    assert configure("rainbow", {}, MINATAR).target_every == 200
    assert configure("spr", {}, MINATAR).target_every == 1


def test_curl_weighs_its_loss_less_in_four_games() -> None:
    games = ("Pong", "Boxing", "PrivateEye", "Freeway", "Qbert")
    weights = [configure("curl", {}, ATARI, game).curl_weight for game in games]
    assert weights == [0.01] * 4 + [1.0]
    assert configure("curl", {"curl_weight": 2.0}, ATARI, "Pong").curl_weight == 2.0
    assert configure("der", {}, ATARI, "Pong").curl_weight == 0


@pytest.mark.parametrize("spelling", ["Pong", "pong", "ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_the_weight_of_a_game_is_found_in_every_spelling(spelling: str) -> None:
    assert asdict(Training(spelling, "curl").config)["curl_weight"] == 0.01
    assert asdict(Training("ALE/Qbert-v5", "curl").config)["curl_weight"] == 1.0
    assert asdict(Training("MinAtar/Freeway-v1", "curl").config)["curl_weight"] == 1.0


@pytest.mark.parametrize("algo", DEEP_PRESETS)
@pytest.mark.parametrize("shape", [ATARI, MINATAR, VECTOR], ids=str)
def test_the_bonus_is_one_flag_away(algo: str, shape: tuple[int, ...]) -> None:
    config = configure(algo, {"bonus.scale": 1.0}, shape)
    assert config.bonus.is_on
    assert config.bonus.feature == ("probs" if config.distributional else "hidden")


def test_spr_ucb_is_spr_with_the_bonus_of_the_paper() -> None:
    config = configure("spr-ucb", {})
    assert config.bonus == BONUSES["paper"].bonus == BonusConfig(scale=1.0, ridge=1.0)
    assert configure("spr-ucb", {"bonus.preset": "none"}) == configure("spr", {})


def test_the_reference_has_the_published_slips_and_settings_win_over_them() -> None:
    config = configure("spr-ucb", {"bonus.preset": "reference"})
    assert (config.cut, config.bonus.cut, config.bonus.action) == ("published",) * 2 + ("previous",)
    assert (config.bonus.ridge, config.bonus.pairs, config.bonus.noisy) == (1e-5, "window", True)
    own = configure("spr-ucb", {"cut": "episode", "bonus.ridge": 1.0, "bonus.preset": "reference"})
    assert (own.cut, own.bonus.cut, own.bonus.ridge) == ("episode", "published", 1.0)


@pytest.mark.parametrize("shape", [ATARI, MINATAR, VECTOR], ids=str)
@pytest.mark.parametrize("algo", DEEP_PRESETS)
@pytest.mark.parametrize("bonus", BONUSES)
def test_everything_goes_with_everything(algo: str, bonus: str, shape: tuple[int, ...]) -> None:
    config = configure(algo, {"bonus.preset": bonus, "hidden": 33}, shape)
    assert config.hidden == 33
    feature = BONUSES[bonus].bonus.feature if config.distributional else "hidden"
    assert config.bonus.feature == feature


def test_families_are_differences_and_settings_win() -> None:
    small = configure("spr-ucb", {}, VECTOR)
    assert (small.hidden, small.mlp, small.n_step) == (64, (64,), 1)
    assert small.bonus.room == FAMILIES["mlp"].settings["bonus.room"]
    own = configure("spr-ucb", {"n_step": 7, "bonus.room": 1.0}, VECTOR)
    assert (own.n_step, own.bonus.room, own.hidden) == (7, 1.0, small.hidden)
    assert configure("spr", {}, MINATAR).hidden == 128
    for algo, config in DEEP_PRESETS.items():
        assert configure(algo, {}, ATARI) == config


def test_a_setting_of_a_bonus_that_is_not_there_was_passed_over() -> None:
    with pytest.raises(ValueError, match=r"bonus.feature=hidden has no effect without a bonus"):
        configure("spr", {"bonus.feature": "hidden"}, ATARI)
    assert configure("spr", {"bonus.feature": "probs"}, ATARI) == DEEP_PRESETS["spr"]
    assert configure("spr", {"bonus.feature": "hidden", "bonus.scale": 1.0}, ATARI).bonus.is_on


def test_every_switch_of_the_bonus_can_be_set_alone() -> None:
    others: dict[str, Any] = {
        "feature": "hidden",
        "pairs": "window",
        "action": "previous",
        "scale": 2.0,
        "ridge": 2.0,
        "steps": "first",
        "cut": "published",
        "optimistic": True,
        "noisy": True,
        "numerics": "published",
        "rebuild_every": 7,
        "rebuild_sample": 7,
        "room": 2.0,
    }
    assert others.keys() == BonusConfig.__dataclass_fields__.keys()
    for name, value in others.items():
        config = configure("spr-ucb", {f"bonus.{name}": value})
        assert getattr(config.bonus, name) == value
    for name in ("sampled", "window", "visits"):
        assert configure("spr-ucb", {"bonus.pairs": name}).bonus.pairs == name
        settings = {"bonus.preset": "algorithm-1", "bonus.pairs": name}
        assert configure("spr-ucb", settings).bonus.pairs == name


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
def test_unknown_names_come_with_a_suggestion(
    algo: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        configure(algo, settings)


@pytest.mark.parametrize(("cells", "width"), [(4, 64), (196, 98), (400, 200), (10_000, 512)])
def test_networks_for_vectors_grow_with_them(cells: int, width: int) -> None:
    config = configure("spr-ucb", {}, (cells,))
    assert (config.hidden, config.mlp) == (width, (width,))
    assert configure("spr-ucb", {"hidden": 7}, (cells,)).hidden == 7


def test_a_grid_of_minatar_has_128_hidden_units_in_all() -> None:
    config = configure("spr", {}, MINATAR)
    assert config.hidden * config.streams == 128
