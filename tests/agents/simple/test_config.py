"""Settings of SimPLe: published values, sizes, schedules, errors, and the tables in the docs."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest

from contrastive_ucb.agents.deep.config import RainbowConfig
from contrastive_ucb.agents.simple.config import (
    FULL,
    KINDS,
    SMALL,
    SimpleConfig,
    configure_simple,
    model_updates_in,
    rounds_in,
)

ATARI, MINATAR, VECTOR = (1, 84, 84), (4, 10, 10), (25,)
PAGE = Path(__file__).parents[3] / "docs" / "simple.md"


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


def test_settings_of_small_are_those_of_the_stored_results() -> None:
    small = configure_simple({}, MINATAR)
    assert (small.hidden, small.value_weight, small.learning_rate) == (128, 1, 1e-3)
    assert (small.adam_beta1, small.adam_beta2, small.adam_eps) == (0.9, 0.999, 1e-5)
    assert (small.model_learning_rate, small.model_warmup, small.support) == (2e-3, 0, None)


def test_full_run_has_15_2_million_simulated_steps() -> None:
    """As stated in the publication."""
    rounds = [rounds_in(FULL, epoch) for epoch in range(1, 16)]
    assert rounds == [1000] * 7 + [2000] + [1000] * 3 + [2000] + [1000] * 2 + [3000]
    assert sum(rounds) * FULL.rollouts * FULL.rollout_steps == 15_200_000
    assert sum(model_updates_in(FULL, epoch) for epoch in range(1, 16)) == 255_000
    assert FULL.epoch_steps * 15 == 96_000


def test_short_epochs_learn_in_proportion() -> None:
    assert model_updates_in(FULL, 1, 0.5) == 22_500
    assert model_updates_in(FULL, 2, 0.5) == 7_500
    assert rounds_in(FULL, 15, 0.5) == 1500
    assert model_updates_in(SMALL, 2, 1e-9) == rounds_in(SMALL, 2, 1e-9) == 1


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
        (
            {"bonus.scale": 1.0},
            "simple has no bonus, so bonus.scale has no effect; choose",
        ),
        ({"bonus.preset": "paper"}, "simple has no bonus, so bonus.preset .*`cucb algos`"),
        ({"updates_per_step": 1.0}, "simple has no setting 'updates_per_step'"),
        ({"n_step": 3}, "simple has no setting 'n_step'.* `cucb algos`.*train --help`"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be int, got 2.5"),
        ({"bits": 0}, "bits must be at least 1"),
        ({"halvings": -1}, "halvings must be at least 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"epochs": "many"}, r"epochs must be int \| None, got 'many'"),
        ({"extra_rounds": (0,)}, "each of extra_rounds must be at least 1, got 0"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"discount": 1.1}, r"discount must be in \[0, 1\]"),
        ({"trace": -0.1}, r"trace must be in \[0, 1\]"),
        ({"bits_pull": 2}, r"bits_pull must be in \[0, 1\]"),
        ({"frame_max": -1.0}, "frame_max must be positive"),
        ({"support": (1.0, 1.0)}, r"support must be .* got \(1.0, 1.0\)"),
        ({"support": (1.0,)}, r"support must be tuple\[float, float\] \| None"),
        ({"adam_beta1": -0.1}, r"adam_beta1 must be in \[0, 1\), got -0.1"),
        ({"adam_beta2": 1}, r"adam_beta2 must be in \[0, 1\), got 1.0"),
        ({"model_warmup": -1}, "model_warmup must be at least 0"),
        ({"mlp": ()}, "mlp must list layer widths of at least 1"),
        ({"reward_atoms": 1}, "reward_atoms must be at least 2"),
        ({"model_learning_rate": 0.0}, "model_learning_rate must be positive"),
    ],
    ids=str,
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        configure_simple(settings, MINATAR)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


def table_with(first_line: str) -> dict[str, list[str]]:
    """Rows of the table with this header: first cell -> other cells."""
    after = PAGE.read_text(encoding="utf-8").split(f"\n{first_line}\n", 1)[1]
    rows = [line for line in after.split("\n\n", 1)[0].splitlines() if "---" not in line]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {first: rest for first, *rest in cells}


def cells_of(config: SimpleConfig) -> dict[str, str]:
    """The cells of a size in the table."""
    sizes = (config.width, config.halvings, config.doublings, config.middle)
    limit = f"{config.epochs}, then acting without learning"
    return {
        "real steps per epoch": f"{config.epoch_steps:,}",
        "epochs": "no limit" if config.epochs is None else limit,
        "input frames of the model": f"{config.history}",
        "model: channels, halvings, doublings, bottleneck layers": ", ".join(map(str, sizes)),
        "model: latent bits": f"{config.bits}",
        "model: updates in the first phase / later": (
            f"{config.first_model_updates:,} / {config.model_updates:,}"
        ),
        "model: batch size, predicted steps": f"{config.model_batch}, {config.unroll}",
        "model: learning rate, warmup updates": (
            f"{config.model_learning_rate:g}, {config.model_warmup:,}"
        ),
        "model: frame weight, loss floor of a pixel": (
            f"{config.frame_weight:g}, {config.loss_floor:g}"
        ),
        "rollouts": f"{config.rollouts} of {config.rollout_steps} steps",
        "PPO rounds per phase": f"{config.rounds:,}",
        "phases with additional rounds": ", ".join(map(str, config.extra_rounds)) or "none",
        "policy: units, learning rate, clip, batch size": (
            f"{config.hidden}, {config.learning_rate:g}, {config.clip:g}, {config.batch_size}"
        ),
        "policy: Adam betas and epsilon, value weight": (
            f"{config.adam_beta1:g}, {config.adam_beta2:g}, {config.adam_eps:g}, "
            f"{config.value_weight:g}"
        ),
    }


def test_docs_table_of_sizes() -> None:
    full, small = cells_of(FULL), cells_of(SMALL)
    assert table_with("| | `full` | `small` |") == {row: [full[row], small[row]] for row in full}


def test_docs_table_of_frame_kinds() -> None:
    rows = table_with("| frames | differences in `small` |")
    names = {"images of at least 36x36": "atari", "vectors": "mlp"}
    for label, kind in names.items():
        differs = " ".join(f"{name}={value}" for name, value in KINDS[kind].items())
        assert rows.pop(label) == [f"`{differs}`"]
    assert not rows
    assert {kind for kind, differs in KINDS.items() if differs} == set(names.values())
