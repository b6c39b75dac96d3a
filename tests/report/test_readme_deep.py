"""The deep tier's tables say what its files say."""

from typing import Any

from contrastive_ucb.report.readme_deep import agent_name, deep_text


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


def test_seas_in_the_order_of_their_size() -> None:
    records = {
        "deepsea-10-paper": {"runs": [run("DeepSea-10", solved_at=None)]},
        "deepsea-9-paper": {
            "runs": [run("DeepSea-9", s, solved_at=at) for s, at in enumerate([90, None, 30, 40])]
        },
    }
    header, _, first, second = rows_of(deep_text(records))
    assert first == ["DeepSea-9", "spr-ucb, paper", "3 of 4 (30% to 95%)", "40 (30 to 90)", "400"]
    assert second == ["DeepSea-10", "spr-ucb, paper", "0 of 1 (0% to 79%)", "never", "400"]
    assert len(header) == len(first)


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
    assert first[:5] == [game, "spr-ucb, paper", "4,000", "1,000", "2.00"]
    low, high = (float(word) for word in first[5].split(" to "))
    assert 0 <= low < 2 < high <= 4
    few = {"runs": several[:3]}
    assert "fewer than 5 seeds is little more than their range" in deep_text({"few": few})
    assert second == ["Pong", "spr", "4,000", "1,000", "-20.50", "one seed", "1"]


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
    assert text.endswith("18 updates a second on one core.")
    marks = {names[0]: (">=", 11.0), names[1]: (">=", 12.5), names[2]: ("<=", 12)}
    text = deep_text({"bench-deep": {"summary": figures, "marks": marks}})
    assert text.endswith(f"are missed: `{names[1]}` 12 (>= 12.5), `{names[2]}` 13 (<= 12).")
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
