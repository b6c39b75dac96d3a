"""The hourglass: what it makes of shapes and actions, and where it cannot be built."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive_ucb.representation.world_model import Gates, Trunk, channels_last, flat, gated

B, A = 3, 4


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(rng(seed).random(shape, dtype=np.float32))


def one_hot(*actions: int) -> Tensor:
    return F.one_hot(torch.tensor(actions), A).float()


def trunk(inputs: tuple[int, ...], **sizes: int) -> Trunk:
    usual = {"width": 6, "halvings": 2, "doublings": 1, "middle": 1}
    return Trunk(inputs, A, rng(), **{**usual, **sizes})


def test_gates_scale_and_shift_every_channel_by_the_action() -> None:
    """The table has the gains of all layers one after the other, then the shifts."""
    channels, actions = [2, 3], [1, 3, 1]
    gates = Gates(A, channels, rng())
    found = gates(one_hot(*actions))
    assert len(found) == len(channels)
    first = 0
    for count, gate in zip(channels, found, strict=True):
        x = uniform(B, count, 5, 5)
        got = gated(x, gate)
        for row, action in enumerate(actions):
            table = gates.table.weight[:, action]
            gain = table[first : first + count, None, None]
            shift = table[5 + first : 5 + first + count, None, None]
            torch.testing.assert_close(got[row], x[row] * gain + shift)
        first += count
    vector = uniform(B, 2)
    torch.testing.assert_close(gated(vector, found[0]), vector * found[0][0] + found[0][1])


def test_new_gates_change_little() -> None:
    gains, shifts = Gates(A, [64], rng())(one_hot(0, 1, 2))[0]
    assert (gains - 1).abs().max() < 0.2
    assert shifts.abs().max() < 0.2


@pytest.mark.parametrize(
    ("shape", "halvings", "narrow"),
    [
        ((4, 10, 10), 0, (10, 10)),
        ((4, 10, 10), 1, (5, 5)),
        ((4, 10, 10), 2, (3, 3)),
        ((2, 7, 11), 1, (4, 6)),
        ((1, 84, 84), 5, (3, 3)),
    ],
)
def test_images_come_back_in_their_own_size(
    shape: tuple[int, ...], halvings: int, narrow: tuple[int, int]
) -> None:
    """Also where a halved side was odd."""
    body = trunk(shape, halvings=halvings)
    gates = body.gates(one_hot(0, 1, 2))
    found = body.descend(uniform(B, *shape), gates)
    assert [len(x) for x in found] == [B] * (halvings + 1)
    assert body.narrow == tuple(found[-1].shape[1:]) == (12 if halvings else 6, *narrow)
    out = body.ascend(found, torch.zeros(B, body.narrow_size), gates)
    assert out.shape == (B, 6, *shape[1:])


def test_vectors_have_linear_layers() -> None:
    body = trunk((7,), doublings=2)
    gates = body.gates(one_hot(0, 1, 2))
    found = body.descend(uniform(B, 7), gates)
    assert [x.shape[1] for x in found] == [6, 12, 24]
    assert body.ascend(found, torch.zeros(B, 24), gates).shape == (B, 6)


def test_vectors_go_through_the_layers_one_by_one() -> None:
    body, action = trunk((7,), middle=2), one_hot(2)
    gates = body.gates(action)
    seen, told = uniform(1, 7), uniform(1, 12, seed=3) - 0.5

    def gate(at: int, x: Tensor) -> Tensor:
        return x * gates[at][0] + gates[at][1]

    first = gate(0, body.down[0](seen)).relu()
    second = gate(1, body.down[1](first)).relu()
    third = gate(2, body.down[2](second)).relu()
    x = (third + told).relu()
    x = x + body.middle[0](x).relu()
    x = x + body.middle[1](x).relu()
    x = (gate(3, body.up[0](x)) + second).relu()
    x = (gate(4, body.up[1](x)) + first).relu()
    got = body.ascend(body.descend(seen, gates), told, gates)
    torch.testing.assert_close(got, x)


def test_on_the_way_up_every_cell_of_an_image_becomes_four() -> None:
    """Of a side of 5 cells there are 3 at half the size; the last of six is cut off."""
    body, action = trunk((2, 5, 5), halvings=1, middle=0), one_hot(1)
    gates = body.gates(action)
    wide, narrow = body.descend(uniform(1, 2, 5, 5), gates)
    got = body.ascend([wide, narrow], torch.zeros(1, body.narrow_size), gates)
    gain, shift = (part[0] for part in gates[2])
    for row, column in np.ndindex(5, 5):
        four = body.up[0](narrow[0, :, row // 2, column // 2]).view(6, 2, 2)
        cell = four[:, row % 2, column % 2] * gain + shift + wide[0, :, row, column]
        torch.testing.assert_close(got[0, :, row, column], cell.relu())


@pytest.mark.parametrize("shape", [(4, 10, 10), (7,)])
def test_action_and_what_is_told_change_what_is_foreseen(shape: tuple[int, ...]) -> None:
    body = trunk(shape)
    seen = uniform(1, *shape).expand(B, *shape)

    def foresee(actions: Tensor, told: float) -> Tensor:
        gates = body.gates(actions)
        return body.ascend(
            body.descend(seen, gates), torch.full((B, body.narrow_size), told), gates
        )

    plain = foresee(one_hot(0, 0, 1), 0.0)
    assert plain[0].equal(plain[1])
    assert not plain[0].equal(plain[2])
    assert not plain.equal(foresee(one_hot(0, 0, 1), 1.0))


def test_what_is_found_can_be_used_again() -> None:
    """Steps are made in place where that is safe; on the way up the way down must not change."""
    body = trunk((4, 10, 10))
    gates = body.gates(one_hot(0, 1, 2))
    found = body.descend(uniform(B, 4, 10, 10), gates)
    kept = [x.clone() for x in found]
    first = body.ascend(found, torch.ones(B, body.narrow_size), gates)
    assert all(x.equal(before) for x, before in zip(found, kept, strict=True))
    assert body.ascend(found, torch.ones(B, body.narrow_size), gates).equal(first)


def test_a_layout_has_the_same_numbers_and_lies_flat_without_a_copy() -> None:
    x = uniform(B, 4, 5, 6)
    laid = channels_last(x)
    assert laid.equal(x)
    flattened = flat(laid)
    assert flattened.data_ptr() == laid.data_ptr()
    assert flattened.equal(x.permute(0, 2, 3, 1).reshape(B, -1))
    vector = uniform(B, 7)
    assert flat(channels_last(vector)).equal(vector)


def test_what_is_told_comes_to_the_cell_that_it_was_read_from() -> None:
    body = trunk((4, 10, 10))
    narrow = channels_last(uniform(B, *body.narrow))
    assert body._spread(flat(narrow)).equal(narrow)


def test_too_many_halvings_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be halved 5 times; set halvings lower"):
        trunk((4, 10, 10), halvings=5)


def test_the_same_stream_makes_the_same_weights_and_torch_is_not_asked() -> None:
    torch.manual_seed(1)
    one = trunk((4, 10, 10)).state_dict()
    torch.manual_seed(2)
    other = trunk((4, 10, 10)).state_dict()
    assert all(value.equal(other[name]) for name, value in one.items())
