"""RunSpec: checked when made, and named by everything that determines the result."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from contrastive_ucb.runs.spec import RunSpec, command_words, commands

SPEC = RunSpec("theory", "contrastive-ucb", "lock", 3, {"rounds": 800, "bonus": {"scale": 1.0}})


def test_identity_is_the_sha256_of_canonical_json_without_the_seed():
    canonical = (
        '{"agent":"contrastive-ucb","config":{"bonus":{"scale":1.0},"rounds":800},'
        '"suite":"theory","task":"lock"}'
    )
    assert SPEC.identity() == hashlib.sha256(canonical.encode()).hexdigest()


def test_seed_and_key_order_do_not_change_the_identity():
    other = replace(SPEC, seed=4, config={"bonus": {"scale": 1.0}, "rounds": 800})
    assert other.identity() == SPEC.identity()
    group = Path("runs/theory/contrastive-ucb") / f"lock-{SPEC.identity()[:8]}"
    assert SPEC.folder(Path("runs")) == group / "seed_3"
    assert other.folder(Path("runs")) == group / "seed_4"


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "other"},
        {"agent": "ucbvi"},
        {"task": "deepsea"},
        {"config": {"rounds": 801, "bonus": {"scale": 1.0}}},
        {"config": {"rounds": 800, "bonus": {"scale": 2.0}}},
        {"config": {"rounds": 800}},
    ],
)
def test_everything_else_changes_the_identity(change):
    assert replace(SPEC, **change).identity() != SPEC.identity()


def test_a_spec_does_not_follow_its_callers_dict():
    config = {"sizes": [1, 2]}
    spec = replace(SPEC, config=config)
    before = spec.identity()
    config["sizes"].append(3)
    assert spec.identity() == before


def test_tuples_become_lists_and_equal_specs_have_one_hash():
    sizes = [replace(SPEC, config={"n_actions": value}) for value in ((4, 4), [4, 4])]
    assert sizes[0] == sizes[1]
    assert len({SPEC, replace(SPEC, seed=3), replace(SPEC, seed=4)}) == 2


@pytest.mark.parametrize("part", ["suite", "agent", "task"])
@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "é", "x" * 201, 3])
def test_names_that_are_no_folders_are_refused(part, name):
    with pytest.raises(ValueError, match=f"{part} must be 1 to 200 of the characters"):
        replace(SPEC, **{part: name})


def test_what_a_run_cannot_have_is_refused():
    for seed in (-1, True, 1.0, "1"):
        with pytest.raises(ValueError, match="seed must be an integer of at least 0, got"):
            replace(SPEC, seed=seed)
    with pytest.raises(ValueError, match="config must be a mapping, got list"):
        replace(SPEC, config=[("a", 1)])
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(SPEC, config={"a": {"b": [0.0, float("nan")]}})


def with_inputs(**settings: object) -> RunSpec:
    inputs = {"algo": "contrastive-ucb", "env": "lock", "settings": settings, "length": 800}
    return replace(SPEC, inputs=inputs)


def test_inputs_are_stored_and_do_not_change_the_identity():
    given = with_inputs(n_dead=20)
    assert given.to_json()["inputs"]["settings"] == {"n_dead": 20}
    assert (given, given.identity()) == (SPEC, SPEC.identity())
    assert "inputs" not in SPEC.to_json()


def test_the_folder_name_has_the_given_settings_that_fit():
    group = (
        with_inputs(n_dead=20, negatives="exact", path="/a b/my file.npz").folder(Path("r")).parent
    )
    assert group.name == f"lock-n_dead=20,negatives=exact,path=my-file.npz-{SPEC.identity()[:8]}"
    many = with_inputs(**{f"setting_{at}": [1.5, None] for at in range(20)}).folder(Path("r"))
    assert len(many.parent.name) <= 80
    assert many.parent.name.endswith(SPEC.identity()[:8])


def test_a_folder_with_the_same_hash_is_the_folder_of_the_run(tmp_path):
    old = SPEC.folder(tmp_path)  # as of a version that wrote no settings into names
    old.mkdir(parents=True)
    assert with_inputs(n_dead=20).folder(tmp_path) == old
    assert replace(with_inputs(n_dead=20), seed=7).folder(tmp_path).parent == old.parent


def test_the_command_is_printed_from_the_inputs():
    assert commands(command_words("solve", with_inputs(n_dead=20).inputs), [4, 0, 1], None) == [
        "cucb solve lock --algo contrastive-ucb --n-dead 20 --rounds 800 --seed 0 --seeds 2",
        "cucb solve lock --algo contrastive-ucb --n-dead 20 --rounds 800 --seed 4",
    ]
    deep = {"algo": "spr", "env": "DeepSea-5", "settings": {"mlp": [8, 8]}, "length": 30}
    words = command_words("train", deep, eval_episodes=3)
    assert words[4:] == ["spr", "--set", "mlp=8,8", "--steps", "30", "--threads", "1",
                         "--eval-episodes", "3"]  # fmt: skip
