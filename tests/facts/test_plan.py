"""facts.toml contains every fact of the theory with its target, and everything it names exists."""

from pkgutil import resolve_name

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.facts.plan import plan_of, read_plan
from contrastive_ucb.facts.rules import RULES

WHOLE, QUICK = read_plan(), read_plan(quick=True)
PART = {
    "name": "a", "env": "lowrank", "algo": "contrastive-ucb", "rounds": 5,
    "settings": {"n_states": 4, "horizon": 2, "alpha": 0.1},
}  # fmt: skip


def table(*parts: dict) -> dict:
    return {"window": 30, "kind": "solve", "seeds": 10, "quick": {"seeds": 3}, "part": list(parts)}


def test_no_fact_is_dropped() -> None:
    names = {fact.fact for fact in WHOLE.facts if fact.group == "facts"}
    assert names == {f"F{number}" for number in range(1, 20)}
    assert {(f.fact, f.part) for f in QUICK.facts if f.group == "facts"} == {
        (f.fact, f.part) for f in WHOLE.facts if f.group == "facts"
    }


def test_the_limits_are_those_of_the_theorems() -> None:
    limits = {(f.fact, f.part): f.limit for f in WHOLE.facts}
    assert limits["F1", "zeta"] == limits["F1", "xi"] == -1
    assert limits["F2", "contrastive-ucb"] == limits["F11", "2x2"] == limits["F11", "3x3"] == -0.5
    for part in ("zeta", "xi", "zeta, tiny", "xi, tiny"):
        assert limits["F4", part] == 1
    assert limits["F5", "lambda = 1"] == limits["F13", "2x2"] == 1
    assert limits["F6", "printed"] == 0
    for fact in WHOLE.facts:
        if fact.fact == "F7":
            assert fact.limit == (1 if fact.part.startswith("contrastive-ucb") else 0)


def test_quick_changes_sizes_but_no_limit() -> None:
    for whole, quick in zip(
        (f for f in WHOLE.facts if f.group == "facts"),
        (f for f in QUICK.facts if f.group == "facts"),
        strict=True,
    ):
        assert (whole.mark, whole.limit, whole.rule) == (quick.mark, quick.limit, quick.rule)
    shared = WHOLE.runs.keys() & QUICK.runs.keys()
    assert len(shared) > 30
    assert all(QUICK.runs[name].problem.rounds < WHOLE.runs[name].problem.rounds for name in shared)
    assert {run.seeds for run in QUICK.runs.values()} == {3}


def test_the_settings_of_the_table_of_facts() -> None:
    mdp = WHOLE.runs["mdp/contrastive-ucb"].problem
    sizes = {"n_states": 10, "n_actions": 3, "rank": 3, "horizon": 4, "reward": "sparse"}
    assert (mdp.env, mdp.env_settings, mdp.rounds) == ("lowrank", sizes, 10_000)
    for name, rounds in (("lock-exact", 800), ("lock-sampled", 5000)):
        for run in (name, *(f"{name}-control/{a}" for a in ("no-bonus", "epsilon-greedy"))):
            lock = WHOLE.runs[run].problem
            assert lock.env_settings == {"horizon": 6, "n_actions": 5, "n_dead": 20}
            assert lock.rounds == rounds
            exact = lock.agent_settings.get("negatives", "sampled") == "exact"
            assert exact == (name == "lock-exact")
    first = next(fact for fact in WHOLE.facts if fact.fact == "F8")
    horizons = [WHOLE.runs[name].problem.env_settings["horizon"] for name in first.runs]
    assert horizons == list(range(3, 13))
    for size in (2, 3):
        game = WHOLE.runs[f"game/game-{size}x{size}"].problem
        assert game.env_settings["n_actions"] == [size, size]
        assert game.rounds == 5000
    assert {run.seeds for run in WHOLE.runs.values()} == {10}
    assert {fact.window for fact in WHOLE.facts} == {30}


@pytest.mark.parametrize("plan", [WHOLE, QUICK], ids=["whole", "quick"])
def test_everything_that_is_named_exists(plan) -> None:
    for run in plan.runs.values():
        assert all(resolve_name(name) for name in run.problem.probes)
    for fact in plan.facts:
        assert fact.rule in RULES or not fact.runs
        assert set(fact.runs) <= plan.runs.keys()
        assert fact.mark == "none" or fact.paper
        assert not (fact.required and fact.mark == "none")
    used = {name for fact in plan.facts for name in fact.runs}
    assert used == plan.runs.keys()


def test_names_of_facts_in_any_case_and_their_runs_only() -> None:
    chosen = WHOLE.choose(["f7", "F12"])
    assert {fact.fact for fact in chosen.facts} == {"F7", "F12"}
    assert all(name.startswith(("lock", "game")) for name in chosen.runs)
    assert len(WHOLE.choose([]).facts) == len(WHOLE.facts)
    assert {f.group for f in WHOLE.choose(["peers"]).facts} == {"peers"}


def test_an_agent_of_a_part_is_a_run() -> None:
    swept = {**PART, "over": {"rank": [1, 2]}, "quick": {"over": {"rank": [2, 3]}, "rounds": 2}}
    shorter = {**PART, "name": "b", "quick": {"settings": {"n_states": 3}}}
    runs = plan_of(table(swept, shorter)).runs
    assert list(runs) == ["a/1", "a/2", "b"]
    assert runs["a/2"].problem.agent_settings == {"alpha": 0.1, "rank": 2}
    assert runs["b"].problem.env_settings["n_states"] == 4
    quick = plan_of(table(swept, shorter), quick=True).runs
    assert list(quick) == ["a/2", "a/3", "b"]
    assert (quick["a/2"].problem.rounds, quick["a/2"].seeds) == (2, 3)
    assert quick["b"].problem.env_settings["n_states"] == 3
    assert quick["b"].problem.agent_settings == {"alpha": 0.1}
    assert plan_of(table(shorter), quick=True, seeds=7).runs["b"].seeds == 7


def test_a_fact_of_an_unknown_run_is_an_error() -> None:
    facts = [{"fact": "F1", "claim": "c", "rule": "slope at most", "runs": ["b"]}]
    with pytest.raises(UserError, match="needs the run 'b'"):
        plan_of({**table(PART), "facts": facts})
