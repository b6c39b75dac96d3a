"""RunSpec: checked when made, and named by everything that determines the result."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive_ucb.runs.spec import RunSpec, command_words, commands

SPEC = RunSpec("theory", "contrastive-ucb", "lock", 3, {"rounds": 800, "bonus": {"scale": 1.0}})


def test_identity_is_the_sha256_of_canonical_json_without_the_seed():
    canonical = (
        '{"agent":"contrastive-ucb","config":{"bonus":{"scale":1.0},"rounds":800},'
        '"suite":"theory","task":"lock"}'
    )
    assert SPEC.identity() == hashlib.sha256(canonical.encode()).hexdigest()


def test_folder_has_the_place_the_identity_and_the_seed():
    expected = Path("runs/theory/contrastive-ucb") / f"lock-{SPEC.identity()[:8]}" / "seed_3"
    assert SPEC.folder(Path("runs")) == expected


def test_seed_and_key_order_do_not_change_the_identity():
    other = replace(SPEC, seed=4, config={"bonus": {"scale": 1.0}, "rounds": 800})
    assert other.identity() == SPEC.identity()
    assert other.folder(Path("runs")) != SPEC.folder(Path("runs"))


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


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(config=st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_any_json_config_is_kept_as_it_is(config):
    assert replace(SPEC, config=config).config == config


def test_a_spec_does_not_follow_its_callers_dict():
    config = {"sizes": [1, 2]}
    spec = replace(SPEC, config=config)
    before = spec.identity()
    config["sizes"].append(3)
    assert spec.identity() == before


def test_tuples_are_kept_as_lists():
    assert replace(SPEC, config={"n_actions": (4, 4)}) == replace(
        SPEC, config={"n_actions": [4, 4]}
    )


def test_equal_specs_are_one_key():
    assert len({SPEC, replace(SPEC, seed=3), replace(SPEC, seed=4)}) == 2


@pytest.mark.parametrize("part", ["suite", "agent", "task"])
@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "é", "x" * 201, 3])
def test_names_that_are_no_folders_are_refused(part, name):
    with pytest.raises(ValueError, match=f"{part} must be 1 to 200 of the characters"):
        replace(SPEC, **{part: name})


@pytest.mark.parametrize("seed", [-1, True, 1.0, "1"])
def test_seeds_that_are_no_counts_are_refused(seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got"):
        replace(SPEC, seed=seed)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": {"b": [0.0, float("nan")]}}, r"config\.a\.b\[1\] is nan"),
        ({"a": np.float64(1)}, r"config\.a is a float64"),
        ({"a": {1: 2}}, r"config\.a has the key 1"),
        ({"a": Path("x")}, r"config\.a is a \w*Path"),
        ([("a", 1)], "config must be a mapping, got list"),
    ],
)
def test_configs_that_json_cannot_hold_are_refused_by_place(config, message):
    with pytest.raises(ValueError, match=message):
        replace(SPEC, config=config)


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
