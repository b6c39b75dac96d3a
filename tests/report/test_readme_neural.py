"""The tables of the neural class say what its files say, and the page has the newest ones."""

import json
from pathlib import Path
from typing import Any

from contrastive_ucb.report.markers import between
from contrastive_ucb.report.neural_figure import trajectories_figure
from contrastive_ucb.report.readme_neural import main, neural_text
from contrastive_ucb.report.records import records_of
from contrastive_ucb.report.tables import NOTHING

ROOT = Path(__file__).parents[2]


def lock(horizon: int, algo: str, *seeds: tuple[int | None, int]) -> dict[str, Any]:
    """A record whose seeds have (solved_at, trajectories)."""
    runs = [
        {"env": "rich-lock", "algo": algo, "solved_at": at, "trajectories": spent}
        for at, spent in seeds
    ]
    command = f"cucb solve rich-lock --algo {algo} --horizon {horizon}"
    return {"command": command, "summary": {"runs": runs}}


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_locks_by_horizon_with_what_they_took() -> None:
    records = {
        "rich-lock-12-contrastive-ucb": lock(12, "contrastive-ucb", (5, 3000), (None, 9000)),
        "rich-lock-6-no-bonus": lock(6, "no-bonus", (None, 1800)),
        "rich-lock-6-contrastive-ucb": lock(6, "contrastive-ucb", (2, 900), (3, 1500)),
    }
    _, _, *rows = rows_of(neural_text(records))
    assert rows == [
        ["rich-lock, H=6", "contrastive-ucb", "2 of 2", "1,200 (900 to 1,500)", NOTHING],
        ["rich-lock, H=6", "no-bonus", "0 of 1", "never", "1,800"],
        ["rich-lock, H=12", "contrastive-ucb", "1 of 2", "3,000", "9,000"],
    ]


def test_the_power_of_the_horizon_needs_three() -> None:
    records = {
        f"rich-lock-{h}-contrastive-ucb": lock(h, "contrastive-ucb", (2, 10 * h**2), (None, 7))
        for h in (6, 12)
    }
    assert "to the power" not in neural_text(records)
    records["rich-lock-24-contrastive-ucb"] = lock(24, "contrastive-ucb", (2, 5760))
    assert "to the power 2.0:" in neural_text(records)
    assert "an error of 0.00, an exponential in H one of 0.2" in neural_text(records)
    assert "other settings" not in neural_text(records)
    records["rich-lock-50-epochs"] = lock(50, "contrastive-ucb", (2, 99_999))
    records["rich-lock-50-epochs"]["command"] += " --epochs 5"
    text = neural_text(records)
    assert "to the power 2.0:" in text
    assert "opened with other settings, the power is 2." in text


def test_settings_that_are_not_the_usual_ones_are_named() -> None:
    records = {
        "rich-lock-50-contrastive-ucb": lock(50, "contrastive-ucb", (None, 9000)),
        "rich-lock-50-epochs": lock(50, "contrastive-ucb", (7, 5000)),
    }
    records["rich-lock-50-epochs"]["command"] += " --alpha 0.04 --epochs 5"
    text = neural_text(records)
    assert "| contrastive-ucb (alpha 0.04, epochs 5) | 1 of 1 | 5,000 |" in text
    assert "| contrastive-ucb | 0 of 1 | never | 9,000 |" in text


def test_the_figure_has_a_mark_for_every_budget_that_was_spent() -> None:
    runs = lock(6, "contrastive-ucb", (2, 900), (3, 1500))["summary"]["runs"]
    shut = lock(6, "uniform", (None, 1800))["summary"]["runs"]
    locks = {("uniform", 6): shut, ("no-bonus", 6): shut, ("contrastive-ucb", 6): runs}
    (axes,) = trajectories_figure(locks).axes
    drawn = {(str(line.get_label()), *map(float, line.get_ydata())) for line in axes.lines}
    assert ("contrastive-ucb", 1200.0) in drawn
    order = [text.get_text() for text in axes.get_legend().get_texts()]
    assert order == ["contrastive-ucb", "no-bonus: not opened", "uniform: not opened"]
    assert ("uniform: not opened", 1800.0) in drawn


def test_a_deep_learner_is_told_by_its_returns() -> None:
    def learner(horizon: int, steps: int) -> dict[str, Any]:
        own = {"env": f"RichLock-{horizon}", "steps": steps, "episodes": 10_000}
        runs = [{**own, "evaluation": {"mean": mean}} for mean in (0.04, 0.1)]
        return {"command": "cucb train RichLock", "summary": {"runs": runs}}

    records = {"rich-lock-12-rainbow": learner(12, 900), "rich-lock-6-rainbow": learner(6, 500)}
    text = neural_text(records)
    assert text.index("bonus, H=6**") < text.index("bonus, H=12**")
    assert "10,000 episodes" in text
    assert "returns 0.04 to 0.10 of 1, where" in text
    assert "(2 seeds, 20" in text
    del records["rich-lock-6-rainbow"]["summary"]["runs"][0]
    assert "returns 0.10 of 1, where" in neural_text(records)
    assert "(one seed, 20" in neural_text(records)


def test_slopes_are_counted_against_their_mark() -> None:
    runs = [{"rounds": 3000, "strictly_optimistic_fraction": part} for part in (1.0, 0.999, 1.0)]
    summary = {"runs": runs, "zeta_slopes": [-1.0, -0.8, -0.5]}
    text = neural_text({"continuous": {"summary": summary}})
    assert "-0.80 (median; -1.00 to -0.50)" in text
    assert "in 2 of 3 seeds" in text
    assert "in every round of 2 of 3 seeds" in text


def test_costs_and_nothing() -> None:
    figures = {"one_by_one_over_together": 3.81, "core_seconds_a_round": 1.36}
    text = neural_text({"bench": {"summary": figures}})
    assert "3.8x as fast" in text
    assert "1.4 s of one core" in text
    assert neural_text({}) == ""


def test_the_page_is_generated_from_the_results(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "neural.md").read_text()
    text = neural_text(records_of(ROOT / "results" / "neural"))
    assert between(page, "measured", text) == page
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "neural.md").write_text("<!-- measured:begin --><!-- measured:end -->")
    (tmp_path / "results" / "neural").mkdir(parents=True)
    record = json.dumps(lock(6, "contrastive-ucb", (2, 987)))
    (tmp_path / "results" / "neural" / "rich-lock-6.json").write_text(record)
    main(tmp_path)
    assert "| 987 |" in (tmp_path / "docs" / "neural.md").read_text()
    assert (tmp_path / "results" / "neural" / "trajectories.svg").read_text().startswith("<svg")
