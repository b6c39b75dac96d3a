"""The tables of the deep tier contain what the stored records contain."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import trim_mean

from contrastive_ucb.report.readme_deep import (
    agent_name,
    deep_text,
    evaluations_text,
    statistics_cells,
    treasure_scores,
)
from contrastive_ucb.report.tables import NOTHING


def run(env: str, seed: int = 0, **more: Any) -> dict[str, Any]:
    own = {
        "algo": "spr-ucb",
        "env": env,
        "seed": seed,
        "bonus": "paper",
        "steps": 4000,
        "updates": 1000,
    }
    return {**own, "episodes": 400, "evaluation": {"mean": 0.25}, **more}


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def evaluation(*means: float) -> dict[str, Any]:
    points = [{"step": at, "mean": mean} for at, mean in enumerate(means)]
    return {"mean": float(np.mean(means)), "episodes": 20, "points": points}


def test_seas_in_the_order_of_their_size() -> None:
    records = {
        "deepsea-10-paper": {"runs": [run("DeepSea-10", solved_at=None)]},
        "deepsea-9-paper": {
            "runs": [run("DeepSea-9", s, solved_at=at) for s, at in enumerate([90, None, 30, 40])]
        },
    }
    header, _, first, second = rows_of(deep_text(records))
    solved = ["3 of 4 (30% to 95%)", "40 (30 to 90)", "400"]
    assert first[:5] == ["DeepSea-9", "spr-ucb, paper", *solved]
    assert second[:5] == ["DeepSea-10", "spr-ucb, paper", "0 of 1 (0% to 79%)", "never", "400"]
    assert len(header) == len(first)


def test_the_score_in_deepsea_is_the_fraction_of_evaluations_with_the_treasure() -> None:
    own = [evaluation(0.0, 0.01, 1.0, 0.95, 1.0), evaluation(0.0, 0.0, 0.0, 0.0, 0.0)]
    runs = [run("DeepSea-9", s, evaluation=one, solved_at=9) for s, one in enumerate(own)]
    assert treasure_scores({"runs": runs}).tolist() == [0.6, 0.0]
    old = {"runs": [run("DeepSea-9", evaluation={"mean": 1.0, "episodes": 20})]}
    assert treasure_scores(old).tolist() == [1.0]
    _, _, row = rows_of(deep_text({"deepsea-9-paper": {"runs": runs}}))
    assert row[5:8] == ["5 x 20", "2", "0.30"]


def test_controls_come_first_and_have_no_solved_seeds() -> None:
    random = {"algo": "random", "bonus": "none", "steps": 0, "evaluation": evaluation(0.0, 0.0)}
    records = {
        "deepsea-9-spr": {"runs": [run("DeepSea-9", algo="spr", bonus="none", solved_at=None)]},
        "deepsea-9-random": {"runs": [run("DeepSea-9", **random)]},
    }
    _, _, first, second = rows_of(deep_text(records))
    assert first[:5] == ["DeepSea-9", "random policy", NOTHING, NOTHING, NOTHING]
    assert second[1] == "spr"
    assert (first[9], second[9]) == ("0.50", NOTHING)  # a tie counts half; spr is the baseline


@pytest.mark.parametrize("n_seeds", [3, 5, 10])
def test_statistics_equal_slow_ones(n_seeds: int) -> None:
    """Oracle: scipy's trimmed mean, and all pairs of runs counted one by one."""
    random = np.random.default_rng(n_seeds)
    ours, base = random.integers(0, 8, (2, n_seeds)).astype(float)
    iqm, spread, chance, doubt = statistics_cells(ours, base)
    assert iqm == f"{trim_mean(ours, 0.25):.2f}"
    won = [(x > y) + 0.5 * (x == y) for x, y in product(ours, base)]
    assert chance == f"{np.mean(won):.2f}"
    for cell, value in ((spread, float(iqm)), (doubt, float(chance))):
        low, high = (float(word) for word in cell.split(" to "))
        assert low <= value <= high
    drawn = random.choice(ours, (20_000, n_seeds))
    low, high = np.quantile([trim_mean(one, 0.25) for one in drawn], [0.025, 0.975])
    assert [float(word) for word in spread.split(" to ")] == pytest.approx([low, high], abs=0.35)


def test_each_game_is_compared_with_spr_of_the_same_game_and_length() -> None:
    def runs(env: str, *scores: float, **more: Any) -> dict[str, Any]:
        return {
            "runs": [run(env, s, evaluation=evaluation(x), **more) for s, x in enumerate(scores)]
        }

    spr = {"algo": "spr", "bonus": "none"}
    records = {
        "a-spr": runs("MinAtar/A-v1", 1.0, 2.0, 3.0, **spr),
        "a-paper": runs("MinAtar/A-v1", 4.0, 5.0, 6.0),
        "a-long": runs("MinAtar/A-v1", 4.0, 5.0, 6.0, steps=50_000),
        "a-constant": runs("MinAtar/A-v1", 0.0, 0.0, 0.0, algo="constant", bonus="none", steps=0),
        "b-spr": runs("MinAtar/B-v1", 9.0, 9.0, 9.0, **spr),
        "b-paper": runs("MinAtar/B-v1", 1.0, 1.0, 1.0),
    }
    _, _, *rows = rows_of(deep_text(records))
    chances = {(row[0], row[1], row[2]): row[8] for row in rows}
    assert chances["MinAtar/A-v1", "spr-ucb, paper", "4,000"] == "1.00"
    assert chances["MinAtar/A-v1", "spr-ucb, paper", "50,000"] == NOTHING
    assert chances["MinAtar/A-v1", "best constant action", "0"] == "0.00"
    assert chances["MinAtar/B-v1", "spr-ucb, paper", "4,000"] == "0.00"
    assert chances["MinAtar/B-v1", "spr", "4,000"] == NOTHING
    assert rows[0][1] == "best constant action"
    assert {row[5] for row in rows} == {"3"}


def test_the_number_of_evaluations_is_that_of_the_record() -> None:
    assert evaluations_text({"evaluation": evaluation(1.0, 2.0)}) == "2 x 20"
    assert evaluations_text({"evaluation": {"mean": 1.0, "episodes": 100}}) == "1 x 100"


def test_scores_with_their_interval() -> None:
    game = "MinAtar/Freeway-v1"
    several = [run(game, s, evaluation={"mean": float(s)}) for s in range(5)]
    records = {
        "minatar-freeway-paper": {"runs": several},
        "pong": {"runs": [run("Pong", algo="spr", bonus="none", evaluation={"mean": -20.5})]},
    }
    text = deep_text(records)
    assert "little more than their range" not in text
    _, _, first, second = rows_of(text)
    assert first[:4] == [game, "spr-ucb, paper", "4,000", "1,000"]
    assert first[5:7] == ["5", "2.00"]
    low, high = (float(word) for word in first[7].split(" to "))
    assert 0 <= low < 2 < high <= 4
    few = {"runs": several[:3]}
    assert "fewer than 5 seeds an interval is little more" in deep_text({"few": few})
    assert second[:4] == ["Pong", "spr", "4,000", "1,000"]
    assert second[5:] == ["1", "-20.50", "one seed", NOTHING, NOTHING]


def test_what_has_no_file_is_left_out() -> None:
    assert deep_text({}) == ""


def test_costs() -> None:
    names = (
        "ms_update_spr",
        "ms_update_spr_ucb_paper",
        "ms_update_spr_ucb_reference",
        "yardstick_over_paper",
        "yardstick_default_over_paper",
        "yardstick_spr_over_spr",
        "yardstick_over_reference",
        "minatar_updates_per_second_one_core_spr",
        "spr_over_drq",
        "spr_over_der",
    )
    figures = {name: float(at) for at, name in enumerate(names, 11)}
    text = deep_text({"bench-deep": {"summary": figures}})
    assert "SPR takes 11 ms" in text
    assert "`paper` 12 ms" in text
    assert "takes 14.0x as long as `paper` (15.0x with the default allocator)" in text
    assert "19.0x as long as one of DrQ, 20.0x as long as one of DER" in text
    assert text.endswith("18 updates per second on one core.")
    marks = {names[0]: (">=", 11.0), names[1]: (">=", 12.5), names[2]: ("<=", 12)}
    text = deep_text({"bench-deep": {"summary": figures, "marks": marks}})
    assert text.endswith(f"not reached: `{names[1]}` 12 (>= 12.5), `{names[2]}` 13 (<= 12).")
    rounded = {
        "ms_update_spr_ucb_paper_bfloat16": 8.0,
        "paper_over_bfloat16": 1.5,
        "yardstick_over_bfloat16": 21.0,
        "yardstick_default_over_bfloat16": 22.0,
    }
    text = deep_text({"bench-deep": {"summary": figures | rounded}})
    assert "`precision=bfloat16`, which is not the default, an update of `paper` takes 8 ms" in text
    assert text.endswith("21.0x as long (22.0x with the default allocator).")


def test_names() -> None:
    assert agent_name({"algo": "rainbow"}) == "rainbow"
    changed = {"algo": "spr-ucb", "bonus": "algorithm-1 feature=probs"}
    assert agent_name(changed) == "spr-ucb, algorithm-1 feature=probs"
    assert agent_name({"algo": "spr", "bonus": "none", "precision": "bfloat16"}) == "spr, bfloat16"
