"""Settings of SimPLe: published values, sizes, schedules and errors."""

from typing import Any, get_type_hints

import pytest

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.simple.config import (
    FULL,
    SimpleConfig,
    configure_simple,
)

ATARI, MINATAR, VECTOR = (1, 84, 84), (4, 10, 10), (25,)


def test_full_has_the_published_settings() -> None:
    full = configure_simple({}, ATARI)
    assert full == configure_simple({}) == FULL == SimpleConfig()
    assert (full.epoch_steps, full.epochs) == (6400, 15)
    assert (full.rollouts, full.rollout_steps) == (16, 50)
    assert (full.model_updates, full.first_model_updates) == (15_000, 45_000)
    assert (full.history, full.width, full.doublings, full.middle) == (4, 96, 3, 2)
    assert (full.bits, full.loss_floor, full.model_batch) == (128, 0.03, 4)
    assert (full.model_hidden, full.unroll, full.own_frames_after) == (128, 6, 40_000)
    assert (full.model_warmup, full.model_clip_norm) == (2000, 1)
    assert (full.discount, full.trace, full.clip, full.entropy) == (0.99, 0.95, 0.1, 0.01)
    # `rlmb_base_stochastic_discrete` overrides the 0.00025 of `ppo_original_params`.
    assert (full.learning_rate, full.passes, full.clip_norm) == (1e-4, 3, 0.5)
    assert (full.adam_beta1, full.adam_beta2, full.adam_eps) == (0.85, 0.997, 1e-6)
    assert full.value_weight / 2 == 1  # our loss is half the squared error
    assert (full.hidden, full.batch_size) == (128, 20 * full.rollouts)


def test_full_run_has_15_2_million_simulated_steps() -> None:
    """As stated in the publication."""
    rounds = [FULL.rounds * (1 + FULL.extra_rounds.count(epoch)) for epoch in range(1, 16)]
    assert rounds == [1000] * 7 + [2000] + [1000] * 3 + [2000] + [1000] * 2 + [3000]
    assert sum(rounds) * FULL.rollouts * FULL.rollout_steps == 15_200_000
    assert FULL.first_model_updates + 14 * FULL.model_updates == 255_000
    assert FULL.epoch_steps * 15 == 96_000


def test_settings_shared_with_rainbow_have_the_same_type() -> None:
    """The command line parses a value before it knows the agent."""
    own, other = get_type_hints(SimpleConfig), get_type_hints(RainbowConfig)
    shared = own.keys() & other.keys()
    assert "learning_rate" in shared
    assert all(own[name] == other[name] for name in shared)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": "smal"}, "no size is called 'smal'; did you mean 'small'"),
        ({"round": 3}, "no setting is called 'round'; did you mean 'rounds'"),
        ({"bonus.preset": "paper"}, "simple has no setting 'bonus.preset'.*`cucb algos`"),
        ({"n_step": 3}, "simple has no setting 'n_step'.* `cucb algos`.*train --help`"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 2.5}, "rounds takes a whole number, got 2.5"),
        ({"bits": 0}, "bits must be at least 1"),
        ({"halvings": -1}, "halvings must be at least 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epochs": "many"}, r"epochs takes a whole number, or none, got 'many'"),
        ({"extra_rounds": (0,)}, "each of extra_rounds must be at least 1, got 0"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"discount": 1.1}, r"discount must be in \[0, 1\]"),
        ({"frame_max": -1.0}, "frame_max must be positive"),
        ({"support": (1.0, 1.0)}, r"support must be .* got \(1.0, 1.0\)"),
        ({"support": (1.0,)}, r"support takes 2 numbers such as"),
        ({"adam_beta1": -0.1}, r"adam_beta1 must be in \[0, 1\), got -0.1"),
        ({"adam_beta2": 1}, r"adam_beta2 must be in \[0, 1\), got 1.0"),
        ({"mlp": ()}, "mlp must list layer widths of at least 1"),
        ({"reward_atoms": 1}, "reward_atoms must be at least 2"),
    ],
    ids=str,
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        configure_simple(settings, MINATAR)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200
