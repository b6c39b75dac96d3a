"""Checkpoints: save and load a nested state exactly, without pickle.

    <folder>/step_<n>/arrays.safetensors   every array and tensor, named by its path in the state
    <folder>/step_<n>/state.json           everything else, with a marker where an array belongs

A marker is a JSON object with the key "$": "numpy" and "torch" mark an array, "tuple" a tuple, and
"dict" a dict whose keys JSON cannot store.
"""

import hashlib
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
from safetensors.numpy import load_file, save_file

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.files import draft_of, publish

FORMAT = 1
ARRAYS, STATE = "arrays.safetensors", "state.json"
DTYPES = "bool, int8-64, uint8-64 and float16-64"

Arrays = dict[str, NDArray[Any]]


class CheckpointError(UserError):
    """A checkpoint that cannot be read; the message names the file and the remedy."""


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Any]) -> Path:
    """Write `folder`/step_<step> atomically; an existing checkpoint is not changed.

    state   dicts, lists and tuples of JSON values, numpy arrays and torch tensors (any device;
            they are loaded on the CPU); dict keys are strings or integers
    """
    if step < 0:
        raise ValueError(f"step must be at least 0, got {step}")
    final = folder / f"step_{step}"
    if final.is_dir():
        return final
    arrays: Arrays = {}
    tree = _encode(dict(state), "", arrays)

    def write(draft: Path) -> None:
        save_file(arrays, draft / ARRAYS)
        content: dict[str, Any] = {
            "format": FORMAT,
            "arrays_sha256": _file_digest(draft / ARRAYS),
            "state": tree,
        }
        content["sha256"] = _digest(content)
        (draft / STATE).write_text(json.dumps(content, indent=1), encoding="utf-8")

    return publish(folder, final.name, write)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved; damaged files raise CheckpointError."""
    content = _read_state_file(path)
    try:
        intact = _file_digest(path / ARRAYS) == content["arrays_sha256"]
    except OSError as error:
        raise _damage(path, ARRAYS, f"cannot be read ({error.strerror})") from error
    if not intact:
        raise _damage(path, ARRAYS, "does not have the content that was saved (checksum differs)")
    state: dict[str, Any] = _decode(content["state"], load_file(path / ARRAYS))
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
    if keep < 1:
        raise ValueError(f"keep must be at least 1, or there is nothing to resume from, got {keep}")
    for step in finished_steps(folder)[:-keep]:
        # Renamed first, so that an interrupted removal does not leave half a checkpoint.
        old = folder / f"step_{step}"
        old.rename(draft_of(old))
    for draft in folder.glob(".step_*"):
        shutil.rmtree(draft)


def finished_steps(folder: Path) -> list[int]:
    """The steps of the finished checkpoints, smallest first."""
    names = (path.name for path in folder.glob("step_*") if path.is_dir())
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step_(0|[1-9][0-9]*)", name))


def _encode(value: Any, path: str, arrays: Arrays) -> Any:
    """`value` as JSON values; arrays are moved to `arrays` and replaced by markers."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"state{path} is {value}; JSON has no such number; use an array")
        return value
    if type(value) is list:
        return [_encode(item, _below(path, at), arrays) for at, item in enumerate(value)]
    if type(value) is tuple:
        return {"$": "tuple", "items": _encode(list(value), path, arrays)}
    if isinstance(value, Mapping):
        return _encode_mapping(value, path, arrays)
    if type(value) is np.ndarray:
        return _encode_array(value, path, arrays)
    if _is_tensor(value):
        return _encode_tensor(value, path, arrays)
    raise TypeError(
        f"state{path} is a {type(value).__name__}; a checkpoint holds None, bool, int, float, str,"
        " list, tuple, dict, numpy arrays and torch tensors: convert it in state_dict()"
    )


def _encode_mapping(value: Mapping[Any, Any], path: str, arrays: Arrays) -> Any:
    """A dict with string keys other than "$" stays a dict; others become a list of pairs."""
    if odd := [key for key in value if type(key) not in (str, int)]:
        raise TypeError(f"state{path} has the key {odd[0]!r}; keys must be strings or integers")
    items = [[key, _encode(item, _below(path, key), arrays)] for key, item in value.items()]
    if all(type(key) is str and key != "$" for key in value):
        return dict(items)
    return {"$": "dict", "items": items}


def _encode_array(value: NDArray[Any], path: str, arrays: Arrays) -> dict[str, str]:
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise TypeError(f"state{path} has dtype {value.dtype}; a checkpoint holds {DTYPES}")
    # The file format takes the memory as it lies, so it must be in C order and little-endian.
    arrays[path] = np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")
    return {"$": "numpy", "at": path, "dtype": value.dtype.str}


def _encode_tensor(value: Any, path: str, arrays: Arrays) -> dict[str, str]:
    import torch

    dense = value.detach().cpu().contiguous()
    # numpy has no bfloat16; its bits travel as integers.
    bits = dense.view(torch.int16) if dense.dtype == torch.bfloat16 else dense
    marker = _encode_array(bits.numpy(), path, arrays)
    return marker | {"$": "torch", "dtype": str(dense.dtype).removeprefix("torch.")}


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


def _below(path: str, key: str | int) -> str:
    """The path of an item; escapes keep paths unique ("a/b" and ["a"]["b"])."""
    if isinstance(key, int):
        return f"{path}/[{key}]"
    return f"{path}/{key.replace('~', '~0').replace('/', '~1').replace('[', '~2')}"


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor, without importing torch, which takes seconds."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _read_state_file(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / STATE).read_text(encoding="utf-8"))
    except OSError as error:
        raise _damage(path, STATE, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _damage(path, STATE, "is not valid JSON") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise _damage(path, STATE, f"has format {found!r}, this version reads {FORMAT}")
    if content.pop("sha256", None) != _digest(content):
        raise _damage(path, STATE, "does not have the content that was saved (checksum differs)")
    return content


def _damage(path: Path, name: str, problem: str) -> CheckpointError:
    """The error for the file `name` of the checkpoint `path`, with the remedy."""
    number = int(path.name[5:]) if re.fullmatch(r"step_[0-9]+", path.name) else 0
    older = [step for step in finished_steps(path.parent) if step < number]
    remedy = (
        f"remove the folder {path} to continue from step_{older[-1]}"
        if older
        else "remove the run folder to start again"
    )
    return CheckpointError(f"{path / name} {problem}; {remedy}")


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(content: dict[str, Any]) -> str:
    """sha256 of the content of state.json, independent of white space."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
