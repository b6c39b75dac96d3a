"""The files in results/ belong to the listed commands and support the claims of the docs."""

import json
import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from contrastive_ucb.cli import solve
from contrastive_ucb.stats.control_scores import NAMES, control_scores

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PEERS = ("curl", "der", "drq", "otr", "rainbow", "simple")
# Experiments that were not repeated with five evaluations yet; the tables say so.
EARLIER = (
    "roadrunner",
    *("minatar-breakout-spr-bfloat16", "minatar-breakout-algorithm-1-probs"),
    *(f"minatar-{game}-{peer}" for game in ("breakout", "freeway", "seaquest") for peer in PEERS),
)
# Runs that are listed but were not run; the results pages and the README say so.
NOT_RUN = {
    *("minatar-breakout-long", "minatar-freeway-long"),
    *("deepsea-20-paper-hidden", "deepsea-20-algorithm-1-probs"),
}
SOLVED = {  # record: least and most solved seeds, seeds
    **{f"deep/deepsea-{size}-algorithm-1": (8, 10, 10) for size in (10, 14, 20)},
    **{f"deep/deepsea-{size}-spr": (0, 0, None) for size in (14, 20)},
    "neural/rich-lock-6-contrastive-ucb": (9, 10, 10),
    "neural/rich-lock-12-contrastive-ucb": (9, 10, 10),
    "neural/rich-lock-24-contrastive-ucb": (4, 5, 5),
    "neural/rich-lock-50-contrastive-ucb": (0, 0, 1),
    "neural/rich-lock-50-epochs": (1, 1, 1),
    **{
        f"neural/rich-lock-{horizon}-{control}": (0, 0, None)
        for horizon in (6, 12, 24)
        for control in ("no-bonus", "uniform")
    },
}


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def runs(name: str) -> list[dict[str, Any]]:
    content = record(name)
    found: list[dict[str, Any]] = content.get("runs") or content["summary"]["runs"]
    return found


def mean_score(name: str) -> float:
    return fmean(run["evaluation"]["mean"] for run in runs(name))


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The names of the scripts that write results/."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    paths = {name: ROOT / "benchmarks" / f"{name}_results.py" for name in ("deep", "neural")}
    paths["finite"] = ROOT / "benchmarks" / "finite_results.py"
    return {name: runpy.run_path(str(path)) for name, path in paths.items()}


def stored_deep() -> dict[str, dict[str, Any]]:
    """All records of the deep tier, by the names that the script has for them."""
    names = {path.stem: f"deep/{path.stem}" for path in (RESULTS / "deep").glob("*.json")}
    games = [path.stem for path in (RESULTS / "minatar").glob("*.json")]
    names |= {f"minatar-{name}": f"minatar/{name}" for name in games}
    return {name: record(path) for name, path in names.items()}


def test_finite_and_neural_files_have_the_commands_of_the_scripts(
    scripts: dict[str, dict[str, Any]],
) -> None:
    for folder, experiments in scripts["finite"]["EXPERIMENTS"].items():
        stored = {path.stem for path in (RESULTS / folder).glob("*.json")}
        assert stored <= {*experiments, "bench-theory", "bench-games"}
        for name, text in experiments.items():
            words = text.removeprefix("cucb ").removeprefix("solve ").split()
            problem, options = solve.parse_command(words)
            assert name.startswith(problem.env)
            assert problem.algo in name or "--algo" not in text
            assert options.seeds == 10
    commands = scripts["neural"]["EXPERIMENTS"]
    names = {path.stem for path in (RESULTS / "neural").glob("*.json")} - {"bench"}
    assert names
    for name in names:
        assert record(f"neural/{name}")["command"] == f"cucb {commands[name]}", name


def test_deep_files_have_the_commands_seeds_and_evaluations_of_the_script(
    scripts: dict[str, dict[str, Any]],
) -> None:
    listed, stored = scripts["deep"]["EXPERIMENTS"], stored_deep()
    assert listed.keys() - stored.keys() <= NOT_RUN
    for name in stored.keys() & listed.keys():
        (command, wanted), found = listed[name], stored[name]
        n_seeds = len(found["runs"])
        assert found["command"] == f"cucb {command} --seed 0 --seeds {n_seeds} --json", name
        assert [run["seed"] for run in found["runs"]] == list(range(n_seeds)), name
        if "points" not in found["runs"][0]["evaluation"]:
            assert name.startswith(EARLIER)
            continue
        assert n_seeds == wanted, name
        for run in found["runs"]:
            atari = not run["env"].startswith(("DeepSea-", "MinAtar/"))
            points = run["evaluation"]["points"]
            assert (len(points), run["evaluation"]["episodes"]) == ((1, 100) if atari else (5, 20))
            assert points[-1]["step"] == run["steps"]


def test_controls_are_stored_for_every_task(scripts: dict[str, dict[str, Any]]) -> None:
    stored, controls = stored_deep(), scripts["deep"]["CONTROLS"]
    assert len(controls) == 12
    for name, (env, _) in controls.items():
        found = stored[name]["runs"]
        assert [(run["env"], run["seed"]) for run in found] == [(env, seed) for seed in range(10)]
        assert all(len(run["evaluation"]["points"]) == 5 for run in found)
        for run in (run for run in found if run["algo"] == "constant"):
            assert run["means_of_actions"][run["action"]] == max(run["means_of_actions"])
        scores = control_scores()[env][NAMES[found[0]["algo"]]]
        assert scores.tolist() == [run["evaluation"]["mean"] for run in found]


@pytest.mark.parametrize("name", SOLVED)
def test_tasks_are_solved_with_the_bonus_only(name: str) -> None:
    least, most, seeds = SOLVED[name]
    found = runs(name)
    assert seeds in (None, len(found))
    assert least <= sum(run["solved_at"] is not None for run in found) <= most


@pytest.mark.parametrize("horizon", [6, 12, 24])
def test_controls_had_three_times_what_the_slowest_seed_needed(horizon: int) -> None:
    lock = f"neural/rich-lock-{horizon}"
    needed = max(run["trajectories"] for run in runs(f"{lock}-contrastive-ucb"))
    for control in ("no-bonus", "uniform"):
        assert min(run["trajectories"] for run in runs(f"{lock}-{control}")) >= 3 * needed
    if horizon < 24:
        rainbow = runs(f"{lock}-rainbow")
        assert min(run["episodes"] for run in rainbow) >= 3 * needed
        assert max(run["evaluation"]["mean"] for run in rainbow) < 0.5


def test_the_error_in_the_continuous_mdp_falls_and_its_values_are_optimistic() -> None:
    slopes = record("neural/continuous")["summary"]["zeta_slopes"]
    assert len(slopes) == 10
    assert sum(slope <= -0.8 for slope in slopes) >= 8
    assert all(run["strictly_optimistic_fraction"] == 1 for run in runs("neural/continuous"))
