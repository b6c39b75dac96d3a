"""Checkpoints come back bit for bit, and damage never goes unnoticed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contrastive_ucb.core.checkpoint import (
    CheckpointError,
    latest_checkpoint,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import write_atomically


def same(left, right):
    """Equality down to the bits: type, dtype, shape, order of keys, sign of zero, NaN payload."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return (left.dtype.str, left.shape, left.tobytes()) == (
            right.dtype.str,
            right.shape,
            right.tobytes(),
        )
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and same(bits_of(left), bits_of(right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left.hex() == right.hex()
    return left == right


def bits_of(tensor):
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


ARRAYS = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(),
        hnp.unsigned_integer_dtypes(),
        hnp.floating_dtypes(sizes=(16, 32, 64)),
    ),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
)
NATIVE = hnp.arrays(
    st.sampled_from(["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**130), 2**130),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
)
# The awkward keys are those that an encoding by path or by marker could confuse.
KEYS = st.one_of(
    st.text(max_size=3),
    st.integers(-3, 3),
    st.sampled_from(["$", "a/b", "a", "b", "[0]", "~0", "~1", "0", "__metadata__", ""]),
)
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        st.one_of(SCALARS, ARRAYS, NATIVE.map(torch.from_numpy)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(KEYS, inner, max_size=3),
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=150)
@given(state=STATES)
def test_any_nested_state_round_trips_bit_for_bit(tmp_path_factory, state):
    folder = tmp_path_factory.mktemp("checkpoints")
    assert same(load_checkpoint(save_checkpoint(folder, 3, state)), state)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "value",
    [
        np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0]),
        np.array(2**64 - 1, dtype=np.uint64),
        np.zeros((0, 3), dtype=bool),
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.arange(3, dtype=">i4"),
        torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
        torch.tensor(7),
        torch.arange(6).reshape(2, 3).T,
        {"$": "numpy", "at": "/x", "dtype": "<f8"},
        {0: np.ones(1), "0": np.zeros(1), "[0]": np.full(1, 2.0)},
        {"a/b": np.ones(1), "a": {"b": np.zeros(1)}},
    ],
    ids=str,
)
def test_awkward_values_round_trip(tmp_path, value):
    assert same(load_checkpoint(save_checkpoint(tmp_path, 0, {"x": value}))["x"], value)


def test_checkpoints_do_not_import_torch(tmp_path):
    program = (
        "import sys, pathlib, numpy;"
        "from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint;"
        "path = save_checkpoint(pathlib.Path(sys.argv[1]), 0, {'x': numpy.ones(2)});"
        "load_checkpoint(path)['x'] += 1;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path], check=False).returncode == 0


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"a": {"loss": float("nan")}}, ValueError, "state/a/loss is nan"),
        ({"a": [1.0, float("inf")]}, ValueError, r"state/a/\[1\] is inf"),
        ({"a": np.float32(1)}, TypeError, "state/a is a float32"),
        ({"a": {1, 2}}, TypeError, "state/a is a set"),
        ({"a": {None: 1}}, TypeError, "state/a has the key None"),
        ({"a": np.array(["x"])}, TypeError, "state/a has dtype <U1"),
        ({"a": np.ones(2, dtype=complex)}, TypeError, "state/a has dtype complex128"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path, state, error, message):
    with pytest.raises(error, match=message):
        save_checkpoint(tmp_path, 0, state)
    assert list(tmp_path.iterdir()) == []


def test_latest_goes_by_number_and_sees_finished_ones_only(tmp_path):
    assert latest_checkpoint(tmp_path / "none") is None
    for step in (9, 100, 20):
        save_checkpoint(tmp_path, step, {"x": step})
    (tmp_path / ".step_500.draft").mkdir()
    (tmp_path / "step_new").mkdir()
    (tmp_path / "step_900").write_text("a file, not a checkpoint")
    latest = latest_checkpoint(tmp_path)
    assert latest == tmp_path / "step_100"
    assert load_checkpoint(latest) == {"x": 100}


def test_prune_keeps_the_newest_and_sweeps_drafts(tmp_path):
    for step in (9, 100, 20, 3):
        save_checkpoint(tmp_path, step, {"x": step})
    (tmp_path / ".step_7.draft").mkdir()
    (tmp_path / ".lock").touch()
    prune_checkpoints(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {"step_20", "step_100", ".lock"}


def damaged_copies(path):
    """Yields the name of the file after each way of damaging it, and restores it."""
    for name in ("arrays.safetensors", "state.json"):
        file = path / name
        whole = file.read_bytes()
        damaged = [whole[:length] for length in {0, 1, 8, len(whole) // 2, len(whole) - 1}]
        for at in range(0, len(whole), 3):
            damaged.append(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        for content in damaged:
            file.write_bytes(content)
            yield name
        file.unlink()
        yield name
        file.write_bytes(whole)


def test_every_damage_is_a_checkpoint_error_or_harmless(tmp_path):
    state = {"x": np.arange(5.0), "n": [1, 2.5, "text"], "t": torch.ones(2), "$": None}
    path = save_checkpoint(tmp_path, 4, state)
    n_errors = 0
    for name in damaged_copies(path):
        message = ""
        try:
            loaded = load_checkpoint(path)
        except CheckpointError as error:
            message = str(error)
        if message:
            n_errors += 1
            assert message.startswith(str(path / name))
            assert message.endswith("; remove the run folder to start again")
            assert "\n" not in message
        else:  # a change in the white space between JSON tokens
            assert name == "state.json"
            assert same(loaded, state)
    assert n_errors > 100


def test_the_remedy_names_the_older_checkpoint(tmp_path):
    for step in (10, 9, 200):
        save_checkpoint(tmp_path, step, {"x": 1})
    newest = save_checkpoint(tmp_path, 30, {"x": np.ones(2)})
    assert save_checkpoint(tmp_path, 30, {"x": 2}) == newest  # and does not write it again
    shutil.copy(tmp_path / "step_10" / "arrays.safetensors", newest / "arrays.safetensors")
    with pytest.raises(UserError, match=r"checksum differs.*step_30 to continue from step_10$"):
        load_checkpoint(newest)


def test_unknown_format_is_refused_by_number(tmp_path):
    path = save_checkpoint(tmp_path, 0, {"x": 1})
    content = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(CheckpointError, match="has format 99, this version reads 1"):
        load_checkpoint(path)


KILLED_HALFWAY = """
import os, signal, sys
from pathlib import Path
from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core import files

def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

folder, moment = Path(sys.argv[1]), sys.argv[2]
if moment == "before the arrays":
    Path.write_bytes = die
elif moment == "between the files":
    Path.write_text = die
elif moment == "before the sync":
    files.sync_to_disk = die
else:
    Path.replace = die
save_checkpoint(folder, 2, {"x": 2})
"""


@pytest.mark.parametrize(
    "moment", ["before the arrays", "between the files", "before the sync", "before the rename"]
)
def test_a_kill_leaves_no_named_checkpoint(tmp_path, moment):
    save_checkpoint(tmp_path, 1, {"x": 1})
    killed = subprocess.run([sys.executable, "-c", KILLED_HALFWAY, tmp_path, moment], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".step_2.*"))) == 1, "it was killed while it was writing"
    latest = latest_checkpoint(tmp_path)
    assert latest is not None
    assert load_checkpoint(latest) == {"x": 1}
    save_checkpoint(tmp_path, 2, {"x": 2})
    prune_checkpoints(tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_2"]


def test_write_atomically_keeps_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "spec.json"
    write_atomically(path, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [
        ("spec.json", "old")
    ]
    monkeypatch.undo()
    write_atomically(path, "new")
    assert Path(path).read_text() == "new"
