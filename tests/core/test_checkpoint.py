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
from contrastive_ucb.core.files import publish, write_atomically


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


def test_a_loaded_array_can_be_written_to_and_outlives_its_folder(tmp_path):
    path = save_checkpoint(tmp_path, 0, {"x": np.arange(4.0), "y": torch.arange(4)})
    state = load_checkpoint(path)
    shutil.rmtree(path)
    state["x"] += 1
    state["y"] += 1
    assert state["x"].tolist() == state["y"].tolist() == [1, 2, 3, 4]


def test_a_torch_optimiser_goes_on_exactly(tmp_path):
    def one_step(model, optimiser):
        optimiser.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimiser.step()

    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    one_step(model, optimiser)
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    loaded = load_checkpoint(save_checkpoint(tmp_path, 1, state))
    twin = torch.nn.Linear(3, 2)
    twin.load_state_dict(loaded["model"])
    twin_optimiser = torch.optim.Adam(twin.parameters(), lr=0.7)
    twin_optimiser.load_state_dict(loaded["optimiser"])
    one_step(model, optimiser)
    one_step(twin, twin_optimiser)
    assert torch.equal(model.weight, twin.weight)


def test_checkpoints_do_not_import_torch(tmp_path):
    """The provable tier starts in a fraction of the time without it."""
    program = (
        "import sys, pathlib, numpy;"
        "from contrastive_ucb.core.checkpoint import load_checkpoint, save_checkpoint;"
        "path = save_checkpoint(pathlib.Path(sys.argv[1]), 0, {'x': numpy.ones(2)});"
        "load_checkpoint(path);"
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


def test_a_step_that_is_there_is_not_written_again(tmp_path):
    first = save_checkpoint(tmp_path, 5, {"x": 1})
    assert save_checkpoint(tmp_path, 5, {"x": 2}) == first
    assert load_checkpoint(first) == {"x": 1}


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
    with pytest.raises(ValueError, match="keep must be at least 1"):
        prune_checkpoints(tmp_path, keep=0)
    assert latest_checkpoint(tmp_path) == tmp_path / "step_100"


def damaged_copies(path):
    """Yields after each way of damaging each file, and puts the file right again."""
    for name in ("arrays.safetensors", "state.json"):
        file = path / name
        whole = file.read_bytes()
        for length in {0, 1, 8, len(whole) // 2, len(whole) - 1}:
            file.write_bytes(whole[:length])
            yield f"{name} cut to {length}", name
        for at in range(0, len(whole), 3):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
            yield f"{name} with byte {at} changed", name
        file.unlink()
        yield f"{name} missing", name
        file.write_bytes(whole)


def what_goes_wrong(path, state):
    """The message of the error that loading gives, or None when it gives the state."""
    try:
        loaded = load_checkpoint(path)
    except CheckpointError as error:
        return str(error)
    assert same(loaded, state)
    return None


def test_every_damage_is_a_checkpoint_error_or_harmless(tmp_path):
    state = {"x": np.arange(5.0), "n": [1, 2.5, "text"], "t": torch.ones(2), "$": None}
    path = save_checkpoint(tmp_path, 4, state)
    n_errors = 0
    for what, name in damaged_copies(path):
        if (message := what_goes_wrong(path, state)) is None:
            # Only a change in the white space between JSON tokens may pass.
            assert name == "state.json", what
            continue
        n_errors += 1
        assert message.startswith(str(path / name)), what
        assert message.endswith("; remove the run folder to start again"), what
        assert "\n" not in message, what
    assert n_errors > 100
    assert same(load_checkpoint(path), state)


def test_the_way_out_names_the_older_checkpoint(tmp_path):
    save_checkpoint(tmp_path, 10, {"x": 1})
    save_checkpoint(tmp_path, 9, {"x": 1})
    newest = save_checkpoint(tmp_path, 30, {"x": 1})
    save_checkpoint(tmp_path, 200, {"x": 1})
    (newest / "arrays.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"step_30 to continue from step_10$"):
        load_checkpoint(newest)


def test_unknown_format_is_refused_by_number(tmp_path):
    path = save_checkpoint(tmp_path, 0, {"x": 1})
    content = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(CheckpointError, match="has format 99, this version reads 1"):
        load_checkpoint(path)


def test_arrays_of_another_checkpoint_are_noticed(tmp_path):
    one = save_checkpoint(tmp_path, 1, {"x": np.zeros(3)})
    two = save_checkpoint(tmp_path, 2, {"x": np.ones(3)})
    shutil.copy(two / "arrays.safetensors", one / "arrays.safetensors")
    with pytest.raises(CheckpointError, match="checksum differs"):
        load_checkpoint(one)


KILLED_HALFWAY = """
import os, signal, sys
from pathlib import Path
from contrastive_ucb.core.checkpoint import save_checkpoint
from contrastive_ucb.core import checkpoint, files

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

folder, moment = Path(sys.argv[1]), sys.argv[2]
if moment == "before the arrays":
    checkpoint.save_file = die
elif moment == "between the files":
    checkpoint._digest = die
elif moment == "before the sync":
    files.sync_to_disk = die
else:
    Path.rename = die
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


def test_publish_leaves_nothing_behind_when_writing_fails(tmp_path):
    def write(draft):
        (draft / "part").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        publish(tmp_path, "step_1", write)
    assert list(tmp_path.iterdir()) == []


def test_publish_shows_the_name_only_after_writing(tmp_path):
    seen_while_writing = []

    def write(draft):
        (draft / "part").write_text("all")
        seen_while_writing.extend(path.name for path in tmp_path.glob("[!.]*"))

    assert (publish(tmp_path, "name", write) / "part").read_text() == "all"
    assert seen_while_writing == []


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
