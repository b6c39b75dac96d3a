"""Checkpoints: save and load a nested state exactly, without pickle.

    <folder>/step_<n>/arrays.safetensors   every array and tensor, named by number and path
    <folder>/step_<n>/state.json           everything else, with a marker where an array belongs

A marker is a JSON object with the key "$": "numpy" and "torch" mark an array, "tuple" a tuple, and
"dict" a dict whose keys JSON cannot store. Both files have a SHA-256, and state.json names the step
and the owner of the checkpoint, so one that was copied from another run is noticed.
"""

import json
import math
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from contrastive_ucb.core.errors import DamageError
from contrastive_ucb.core.files import START_AGAIN, checksum, draft, sealed, unsealed

FORMAT = 1
ARRAYS, STATE = "arrays.safetensors", "state.json"
DIFFERS = "does not have the content that was saved (checksum differs)"

Arrays = dict[str, NDArray[Any]]


class CheckpointError(DamageError):
    """A checkpoint that cannot be read; the message names the file and the remedy."""


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, Any], owner: Mapping[str, Any] | None = None
) -> Path:
    """Write `folder`/step_<step> atomically; an existing checkpoint is not changed.

    state   dicts, lists and tuples of JSON values, numpy arrays and torch tensors (any device;
            they are loaded on the CPU); dict keys are strings or integers
    owner   what identifies the run, as JSON values
    """
    final = folder / f"step_{step}"
    if final.is_dir():
        return final
    arrays: Arrays = {}
    content: dict[str, Any] = {"format": FORMAT, "owner": {**(owner or {}), "step": step}}
    content["state"] = _encode(dict(state), "", arrays)
    data = save(arrays)
    content["arrays_sha256"] = checksum(data)
    folder.mkdir(parents=True, exist_ok=True)
    with draft(final) as new:
        new.mkdir()
        (new / ARRAYS).write_bytes(data)
        (new / STATE).write_text(json.dumps(sealed(content), indent=1), encoding="utf-8")
    return final


def load_checkpoint(path: Path, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The state that was saved; damaged files raise CheckpointError.

    owner   whose checkpoint it must be; checkpoints of earlier versions do not name it
    """
    try:
        content = json.loads((path / STATE).read_bytes())
        data = (path / ARRAYS).read_bytes()
    except OSError as error:
        raise _damage(Path(error.filename), f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _damage(path / STATE, "is not valid JSON") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise _damage(path / STATE, f"has format {version!r}, this version reads {FORMAT}")
    if "sha256" not in content or (content := unsealed(content)) is None:
        raise _damage(path / STATE, DIFFERS)
    if checksum(data) != content["arrays_sha256"]:
        raise _damage(path / ARRAYS, DIFFERS)
    saved = content.get("owner", {})
    expected = {} if owner is None or len(saved) < 2 else dict(owner)
    if "step" in saved and (number := _step(path)) is not None:
        expected["step"] = number
    if others := [key for key in expected if saved.get(key) != expected[key]]:
        key = others[0]
        found, wanted = (str(value)[:8] for value in (saved.get(key), expected[key]))
        what = f"{key} {found} instead of {wanted}"
        raise _damage(path / STATE, f"belongs to another checkpoint or run ({what})")
    state: dict[str, Any] = _decode(content["state"], load(data))
    return state


def latest_checkpoint(folder: Path) -> Path | None:
    """The finished checkpoint with the largest step, or None."""
    steps = finished_steps(folder)
    return folder / f"step_{steps[-1]}" if steps else None


def prune_checkpoints(folder: Path, keep: int) -> None:
    """Remove all except the `keep` newest checkpoints, and drafts of killed runs.

    Only the process that writes to `folder` may call this, since other processes cannot distinguish
    an active draft from a stale one.
    """
    for step in finished_steps(folder)[:-keep]:
        # Renamed first, so that an interrupted removal does not leave half a checkpoint.
        (folder / f"step_{step}").rename(folder / f".step_{step}.old")
    for unfinished in folder.glob(".step_*"):
        shutil.rmtree(unfinished)


def finished_steps(folder: Path) -> list[int]:
    """The steps of the finished checkpoints, smallest first."""
    names = (path.name for path in folder.glob("step_*") if path.is_dir())
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step_(0|[1-9][0-9]*)", name))


def _encode(value: Any, path: str, arrays: Arrays) -> Any:
    """`value` as JSON values; arrays are moved to `arrays` and replaced by markers."""
    torch = sys.modules.get("torch")  # without it there are no tensors; importing takes seconds
    if type(value) is float and not math.isfinite(value):
        raise ValueError(f"state{path} is {value}; JSON has no such number; use an array")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        items = [_encode(item, f"{path}/[{at}]", arrays) for at, item in enumerate(value)]
        return items if type(value) is list else {"$": "tuple", "items": items}
    if isinstance(value, Mapping):
        if odd := [key for key in value if type(key) not in (str, int)]:
            raise TypeError(f"state{path} has the key {odd[0]!r}; keys must be strings or integers")
        pairs = [[key, _encode(item, f"{path}/{key}", arrays)] for key, item in value.items()]
        is_json = all(type(key) is str and key != "$" for key in value)
        return dict(pairs) if is_json else {"$": "dict", "items": pairs}
    kind, dtype = "numpy", ""
    if torch is not None and isinstance(value, torch.Tensor):
        kind, dtype = "torch", str(value.dtype).removeprefix("torch.")
        dense = value.detach().cpu().contiguous()
        # numpy has no bfloat16; its bits are stored as integers.
        value = (dense.view(torch.int16) if dense.dtype == torch.bfloat16 else dense).numpy()
    if type(value) is not np.ndarray:
        raise TypeError(
            f"state{path} is a {type(value).__name__}; a checkpoint holds None, bool, int, float,"
            " str, list, tuple, dict, numpy arrays and torch tensors: convert it in state_dict()"
        )
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise TypeError(
            f"state{path} has dtype {value.dtype}; a checkpoint holds bool, int8-64, uint8-64 and"
            " float16-64"
        )
    name = f"{len(arrays)}{path}"  # unique because of the number
    # The file format takes the memory as it lies, so it must be in C order and little-endian.
    arrays[name] = np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")
    return {"$": kind, "at": name, "dtype": dtype or value.dtype.str}


def _decode(tree: Any, arrays: Arrays) -> Any:
    """The inverse of `_encode`."""
    if isinstance(tree, list):
        return [_decode(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    match tree.get("$"):
        case "numpy":
            # A copy, because the loaded array may be a read-only view of the file.
            return arrays[tree["at"]].astype(tree["dtype"], copy=True)
        case "torch":
            import torch

            return torch.from_numpy(arrays[tree["at"]].copy()).view(getattr(torch, tree["dtype"]))
        case "tuple":
            return tuple(_decode(tree["items"], arrays))
        case "dict":
            return {key: _decode(item, arrays) for key, item in tree["items"]}
        case _:
            return {key: _decode(item, arrays) for key, item in tree.items()}


def _damage(file: Path, problem: str) -> CheckpointError:
    """The error for a file of a checkpoint, with the remedy."""
    path = file.parent
    older = [step for step in finished_steps(path.parent) if step < (_step(path) or 0)]
    remedy = f"remove the folder {path} to continue from step_{older[-1]}" if older else START_AGAIN
    return CheckpointError(f"{file} {problem}", remedy)


def _step(path: Path) -> int | None:
    """The step in the name of a checkpoint."""
    return int(path.name[5:]) if re.fullmatch(r"step_[0-9]+", path.name) else None
