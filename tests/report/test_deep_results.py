"""The stored results of the deep tier belong to the listed commands and support the claims."""

import json
import runpy
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from contrastive_ucb.agents.deep.presets import DEEP_PRESETS
from contrastive_ucb.stats.control_scores import NAMES, control_scores

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of benchmarks/deep_results.py."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return runpy.run_path(str(ROOT / "benchmarks" / "deep_results.py"))


def stored() -> dict[str, dict[str, Any]]:
    """All records, by the names that the script has for them."""
    paths = {path.stem: path for path in (RESULTS / "deep").glob("*.json")}
    paths |= {f"minatar-{path.stem}": path for path in (RESULTS / "minatar").glob("*.json")}
    return {name: json.loads(path.read_text()) for name, path in paths.items()}


def test_every_file_has_the_command_of_its_experiment(script: dict[str, Any]) -> None:
    listed, kept = script["EXPERIMENTS"], stored()
    # Long runs that are listed but were not run; docs/deep.md and the README say so.
    unkept = {"minatar-breakout-long", "minatar-freeway-long"}
    assert listed.keys() - kept.keys() <= unkept
    for name in kept.keys() & listed.keys():
        (command, _), found = listed[name], kept[name]
        n_seeds = len(found["runs"])
        assert found["command"] == f"cucb {command} --seed 0 --seeds {n_seeds} --json", name
        assert [run["seed"] for run in found["runs"]] == list(range(n_seeds)), name


PEERS = ("curl", "der", "drq", "otr", "rainbow", "simple")
# Experiments that were not repeated with five evaluations yet; the tables say so.
EARLIER = (
    *("deepsea-20", "minatar-seaquest", "roadrunner"),
    *("minatar-breakout-spr-bfloat16", "minatar-breakout-algorithm-1-probs"),
    *(f"minatar-{game}-{peer}" for game in ("breakout", "freeway") for peer in PEERS),
)


def test_every_file_has_the_seeds_and_the_evaluations_of_the_protocol(
    script: dict[str, Any],
) -> None:
    listed, kept = script["EXPERIMENTS"], stored()
    for name in kept.keys() & listed.keys():
        runs = kept[name]["runs"]
        if "points" not in runs[0]["evaluation"]:
            assert name.startswith(EARLIER)
            continue
        assert len(runs) == listed[name][1], name
        for run in runs:
            atari = not run["env"].startswith(("DeepSea-", "MinAtar/"))
            points = run["evaluation"]["points"]
            assert (len(points), run["evaluation"]["episodes"]) == ((1, 100) if atari else (5, 20))
            assert points[-1]["step"] == run["steps"]


def test_controls_are_stored_for_every_task(script: dict[str, Any]) -> None:
    kept = stored()
    assert len(script["CONTROLS"]) == 12
    for name, (env, _) in script["CONTROLS"].items():
        runs = kept[name]["runs"]
        assert [(run["env"], run["seed"]) for run in runs] == [(env, seed) for seed in range(10)]
        for run in runs:
            assert (len(run["evaluation"]["points"]), run["evaluation"]["episodes"]) == (5, 20)
            if run["algo"] == "constant":
                means = run["means_of_actions"]
                assert means[run["action"]] == max(means)
        scores = control_scores()[env][NAMES[runs[0]["algo"]]]
        assert scores.tolist() == [run["evaluation"]["mean"] for run in runs]


@pytest.mark.parametrize("size", [10, 14, 20])
def test_algorithm_1_solves_the_deep_sea_in_at_least_8_of_10_seeds(size: int) -> None:
    runs = record(f"deep/deepsea-{size}-algorithm-1")["runs"]
    assert len(runs) == 10
    assert sum(run["solved_at"] is not None for run in runs) >= 8


@pytest.mark.parametrize("size", [14, 20])  # at 10 luck is enough in one seed of 5
def test_spr_solves_no_deep_sea(size: int) -> None:
    runs = record(f"deep/deepsea-{size}-spr")["runs"]
    assert len(runs) >= 5
    assert all(run["solved_at"] is None for run in runs)


@pytest.mark.parametrize("game", ["breakout", "freeway"])
def test_spr_ucb_scores_clearly_above_the_random_policy(game: str) -> None:
    """At least 9 of 10 seeds score three times the random policy, and so does the mean.

    On Freeway one seed fails (docs/deep.md): it scores 0.21, half of the random policy.
    """
    random = fmean(run["evaluation"]["mean"] for run in record(f"minatar/{game}-random")["runs"])
    scores = [run["evaluation"]["mean"] for run in record(f"minatar/{game}-paper")["runs"]]
    assert sum(score > 3 * random for score in scores) >= {"breakout": 10, "freeway": 9}[game]
    assert fmean(scores) > 3 * random


@pytest.mark.parametrize("algo", [*DEEP_PRESETS, "simple"])
def test_every_method_beats_random_play_in_breakout(algo: str) -> None:
    random = fmean(run["evaluation"]["mean"] for run in record("minatar/breakout-random")["runs"])
    runs = record(f"minatar/breakout-{'paper' if algo == 'spr-ucb' else algo}")["runs"]
    assert len(runs) >= 3
    assert fmean(run["evaluation"]["mean"] for run in runs) > random
