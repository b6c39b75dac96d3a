"""Validation of the settings."""

from typing import Any

import pytest

from contrastive_ucb.agents.deep.config import BonusConfig, RainbowConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_step": 0}, "n_step must be at least 1, got 0"),
        ({"n_step": 2.5}, "n_step takes a whole number, got 2.5"),
        ({"n_step": True}, "n_step takes a whole number, got True"),
        ({"double": 1}, "double takes true or false, got 1"),
        ({"learning_rate": "fast"}, "learning_rate takes a number, got 'fast'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate takes a number, got nan"),
        ({"encoder": "resnet"}, "encoder takes one of auto, atari, atari-same, minatar, mlp"),
        ({"discount": 1.5}, r"discount must be in \[0, 1\], got 1.5"),
        ({"epsilon": (1.0, 2.0)}, r"epsilon must be in \[0, 1\]"),
        ({"epsilon": (1.0,)}, r"epsilon takes 2 numbers such as 1,0.1, got \(1.0,\)"),
        ({"importance": 0.4}, r"importance takes 2 numbers such as 0.4,1.0, got 0.4"),
        ({"noisy": -0.5}, "noisy must be at least 0, got -0.5"),
        ({"support": (1.0, 1.0)}, "support must be .* got .1.0, 1.0."),
        ({"support": 3}, r"support takes 2 numbers such as 0,10, or none, got 3"),
        ({"frame_max": 0.0}, "frame_max must be positive"),
        ({"mlp": ()}, "mlp must list layer widths of at least 1"),
        ({"mlp": (8, 0)}, "mlp must list layer widths of at least 1"),
        ({"mlp": (8, "a")}, r"mlp takes whole numbers such as 64,64"),
        ({"streams": 3}, "streams must be 1, or 2 with dueling=True, got 3"),
        ({"dueling": False}, "streams must be 1, .* got 2 with dueling=False"),
        ({"spr_weight": 1.0, "batch_size": 1}, "SPR needs batch_size of at least 2, got 1"),
        ({"curl_weight": 1.0, "batch_size": 1}, "CURL needs batch_size of at least 2, got 1"),
        (
            {"distributional": False, "bonus": BonusConfig(scale=1.0)},
            "set bonus.feature=hidden",
        ),
        ({"bonus.feature": "latent"}, "bonus.feature takes one of probs, hidden, got 'latent'"),
        ({"bonus.scale": -1.0}, "bonus.scale must be at least 0, got -1.0"),
        ({"bonus.scale": float("inf")}, "bonus.scale takes a number, got inf"),
        ({"bonus.ridge": 0.0}, "bonus.ridge must be positive"),
        ({"bonus.room": -1.0}, "bonus.room must be at least 0"),
        ({"bonus.optimistic": "yes"}, "bonus.optimistic takes true or false, got 'yes'"),
        ({"bonus.rebuild_every": -1}, "bonus.rebuild_every must be at least 0"),
        ({"bonus.rebuild_sample": 0}, "bonus.rebuild_sample must be at least 1"),
        (
            {"bonus.pairs": "visits", "bonus.action": "previous"},
            "visits requires bonus.action=taken",
        ),
        ({"bonus.optimistic": True, "bonus.action": "previous"}, "requires bonus.action=taken"),
    ],
    ids=str,
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    of_bonus = {key[6:]: value for key, value in settings.items() if key.startswith("bonus.")}
    with pytest.raises(ValueError, match=message) as error:
        BonusConfig(**of_bonus) if of_bonus else RainbowConfig(**settings)
    assert "\n" not in str(error.value)
