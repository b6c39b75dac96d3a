"""The world model: losses and layers against plain loops, and two small worlds it must learn."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.world_model import (
    GROUP,
    LEVELS,
    BitPrior,
    FrameKind,
    Gates,
    Hourglass,
    Outcome,
    WorldModel,
    apply_gate,
    bits_kl,
    joint_log_probs,
    sample_bits,
    sample_categorical,
)

B, K, A, N = 4, 2, 3, 5
BINARY, PIXELS, VECTOR = (2, 6, 6), (1, 8, 8), (3,)
KINDS: list[tuple[FrameKind, tuple[int, ...]]] = [
    ("bernoulli", BINARY),
    ("softmax", PIXELS),
    ("gaussian", VECTOR),
]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(rng(seed).random(shape, dtype=np.float32))


def model_of(kind: FrameKind, shape: tuple[int, ...], **sizes: int) -> WorldModel:
    most = 255.0 if kind == "softmax" else 1.0
    usual = {"width": 4, "halvings": 1, "n_bits": 3, "hidden": 8}
    return WorldModel(shape, K, A, N, rng(), frame_max=most, **{**usual, **sizes})


def frames(kind: FrameKind, *shape: int, seed: int = 2) -> Tensor:
    """Frames as they are stored."""
    draw = rng(seed)
    if kind == "gaussian":
        return torch.from_numpy(draw.standard_normal(shape).astype(np.float32))
    high = 256 if kind == "softmax" else 2
    return torch.from_numpy(draw.integers(0, high, shape, dtype=np.uint8))


def history_of(kind: FrameKind, shape: tuple[int, ...]) -> Tensor:
    return frames(kind, B, K * shape[0], *shape[1:])


ACTIONS = torch.tensor([0, 1, 2, 1])


def outcome_with(frame: Tensor) -> Outcome:
    return Outcome(frame, torch.zeros(len(frame), N), torch.zeros(len(frame)))


def test_binary_loss_is_a_sum_over_entries() -> None:
    model, logits = model_of("bernoulli", BINARY), torch.randn(B, *BINARY)
    target = frames("bernoulli", B, *BINARY)
    got = model.frame_loss(outcome_with(logits), target, target)
    for row in range(B):
        total = 0.0
        for logit, mark in zip(logits[row].flatten(), target[row].flatten(), strict=True):
            prob = 1 / (1 + math.exp(-float(logit)))
            total -= math.log(prob if mark else 1 - prob)
        assert float(got[row]) == pytest.approx(total, rel=1e-4)


def test_pixel_loss_is_a_sum_with_a_floor() -> None:
    model, target = model_of("softmax", PIXELS), frames("softmax", B, *PIXELS)
    logits = torch.zeros(B, *PIXELS, LEVELS)
    n_pixels = math.prod(PIXELS)
    plain = model.frame_loss(outcome_with(logits), target, target)
    assert plain.tolist() == pytest.approx([n_pixels * math.log(256)] * B, rel=1e-5)
    sure = torch.nn.functional.one_hot(target.long(), LEVELS) * 50.0
    assert model.frame_loss(outcome_with(sure), target, target).tolist() == [0.0] * B
    sure.requires_grad_()
    floored = model.frame_loss(outcome_with(sure), target, target, floor=0.03)
    assert floored.tolist() == pytest.approx([0.03 * n_pixels] * B)
    floored.sum().backward()
    assert sure.grad is not None
    assert sure.grad.abs().max() == 0


def test_vector_loss_is_in_units_of_the_usual_change() -> None:
    model, history = model_of("gaussian", VECTOR), history_of("gaussian", VECTOR)
    model.measure(torch.tensor([[-9.0] * 3, [9.0] * 3]), torch.tensor([[2.0, 1.0, 4.0]] * 3))
    assert model.change.tolist() == [2.0, 1.0, 4.0]
    target = history[:, 3:] + torch.tensor([2.0, 1.0, 4.0])
    right = outcome_with(torch.ones(B, 3))
    assert model.frame_loss(right, history, target).abs().max() < 1e-9
    wrong = outcome_with(torch.tensor([[1.0, 1.0, 3.0]] * B))
    assert model.frame_loss(wrong, history, target).tolist() == pytest.approx([2.0] * B, rel=1e-4)
    torch.testing.assert_close(model.draw_frame(right, history), target)


def test_predicted_vectors_stay_in_the_observed_range() -> None:
    model, history = model_of("gaussian", VECTOR), history_of("gaussian", VECTOR)
    seen = torch.tensor([[-1.0, 0.0, -2.0], [1.0, 0.5, 2.0]])
    model.measure(seen, torch.tensor([[0.0, 0.0, 0.0]]))
    assert model.change.tolist() == [1.0] * 3
    far = model.draw_frame(outcome_with(torch.full((B, 3), 100.0)), history)
    assert far.tolist() == [[1.0, 0.5, 2.0]] * B
    model.measure(seen, torch.tensor([[4.0, 0.0, 0.0]]))  # constant entries: bounded below
    assert model.change.tolist() == pytest.approx([4.0, 0.2, 0.2])


def test_untrained_binary_model_copies_the_last_frame() -> None:
    model, history = model_of("bernoulli", BINARY), history_of("bernoulli", BINARY)
    outcome = model.predict(history, ACTIONS, uniform(B, 1))
    assert model.draw_frame(outcome, history).equal(history[:, -BINARY[0] :])


def steps_of(world: str, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A cell on a line of six. It moves by action - 1; in the windy world it moves one more step to
    the right with probability 1/2. Steps from the last cell have reward 1.

    Returns histories of two frames, actions, next frames and rewards.
    """
    draw = rng(seed)
    place, action = draw.integers(0, 6, count), draw.integers(0, A, count)
    wind = draw.integers(0, 2, count) if world == "windy" else np.zeros(count, np.int64)
    after = np.clip(place + action - 1 + wind, 0, 5)
    rows = np.eye(6, dtype=np.uint8)[:, None, None, :]  # (6, 1, 1, 6)
    images = np.repeat(rows, 3, axis=2)  # three rows, all the same
    history = np.concatenate([images[place], images[place]], axis=1)
    paid = (place == 5).astype(np.int64)
    return tuple(torch.from_numpy(x) for x in (history, action, images[after], paid))  # type: ignore[return-value]


def trained(world: str, updates: int = 250) -> WorldModel:
    sizes = {"width": 8, "halvings": 1, "n_bits": 2, "hidden": 16, "pull": 0.3}
    model = WorldModel((1, 3, 6), 2, A, 2, rng(), **sizes)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    draw = rng(5)
    for update in range(updates):
        history, action, target, paid = steps_of(world, 64, 100 + update)
        noise = torch.from_numpy(draw.random((64, 2), dtype=np.float32))
        outcome, divergence = model.loss(history, action, target, noise)
        loss = (model.frame_loss(outcome, history, target) + divergence).mean()
        loss = loss + torch.nn.functional.cross_entropy(outcome.reward, paid)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def test_learns_a_deterministic_world() -> None:
    model = trained("calm")
    history, action, target, paid = steps_of("calm", 200, 1)
    outcome = model.predict(history, action, uniform(200, 1))
    assert (model.draw_frame(outcome, history) == target).flatten(1).all(1).float().mean() > 0.97
    assert (outcome.reward.argmax(-1) == paid).float().mean() > 0.97


def test_bits_represent_randomness() -> None:
    """Both outcomes are predicted about equally often, and never a mixture of them."""
    model = trained("windy", updates=400)
    history = steps_of("windy", 1, 3)[0]
    history[:] = 0
    history[..., 2] = 1
    many = history.expand(400, -1, -1, -1)
    stays = torch.ones(400, dtype=torch.int64)
    drawn = model.draw_frame(model.predict(many, stays, uniform(400, 1)), many)[:, 0, 1]
    places = drawn.argmax(-1)
    assert (drawn.sum(-1) == 1).float().mean() > 0.9
    often = torch.bincount(places, minlength=6) / 400
    assert float(often[2]) == pytest.approx(0.5, abs=0.2)
    assert float(often[3]) == pytest.approx(0.5, abs=0.2)


# --- The hourglass network


def one_hot(*actions: int) -> Tensor:
    return F.one_hot(torch.tensor(actions), 4).float()


def hourglass(inputs: tuple[int, ...], **sizes: int) -> Hourglass:
    usual = {"width": 6, "halvings": 2, "doublings": 1, "middle": 1}
    return Hourglass(inputs, 4, rng(), **{**usual, **sizes})


def test_gates_scale_and_shift_channels_by_action() -> None:
    """The table holds the gains of all layers, then their shifts."""
    channels, actions = [2, 3], [1, 3, 1]
    gates = Gates(4, channels, rng())
    found = gates(one_hot(*actions))
    assert len(found) == len(channels)
    first = 0
    for count, gate in zip(channels, found, strict=True):
        x = uniform(3, count, 5, 5)
        got = apply_gate(x, gate)
        for row, action in enumerate(actions):
            table = gates.table.weight[:, action]
            gain = table[first : first + count, None, None]
            shift = table[5 + first : 5 + first + count, None, None]
            torch.testing.assert_close(got[row], x[row] * gain + shift)
        first += count
    vector = uniform(3, 2)
    torch.testing.assert_close(apply_gate(vector, found[0]), vector * found[0][0] + found[0][1])


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
def test_decoded_images_have_the_input_size(
    shape: tuple[int, ...], halvings: int, narrow: tuple[int, int]
) -> None:
    """Also if a side is odd."""
    body = hourglass(shape, halvings=halvings)
    gates = body.gates(one_hot(0, 1, 2))
    found = body.encode(uniform(3, *shape), gates)
    assert [len(x) for x in found] == [3] * (halvings + 1)
    assert body.narrow == tuple(found[-1].shape[1:]) == (12 if halvings else 6, *narrow)
    out = body.decode(found, torch.zeros(3, body.narrow_size), gates)
    assert out.shape == (3, 6, *shape[1:])


def test_vector_hourglass_layer_by_layer() -> None:
    body, action = hourglass((7,), middle=2), one_hot(2)
    gates = body.gates(action)
    frames_in, code = uniform(1, 7), uniform(1, 12, seed=3) - 0.5

    def gate(at: int, x: Tensor) -> Tensor:
        return x * gates[at][0] + gates[at][1]

    first = gate(0, body.down[0](frames_in)).relu()
    second = gate(1, body.down[1](first)).relu()
    third = gate(2, body.down[2](second)).relu()
    x = (third + code).relu()
    x = x + body.middle[0](x).relu()
    x = x + body.middle[1](x).relu()
    x = (gate(3, body.up[0](x)) + second).relu()
    x = (gate(4, body.up[1](x)) + first).relu()
    got = body.decode(body.encode(frames_in, gates), code, gates)
    torch.testing.assert_close(got, x)


def test_upsampling_turns_each_pixel_into_four() -> None:
    """A side of 5 pixels has 3 at half the size; the sixth upsampled pixel is cropped."""
    body, action = hourglass((2, 5, 5), halvings=1, middle=0), one_hot(1)
    gates = body.gates(action)
    wide, narrow = body.encode(uniform(1, 2, 5, 5), gates)
    got = body.decode([wide, narrow], torch.zeros(1, body.narrow_size), gates)
    gain, shift = (part[0] for part in gates[2])
    for row, column in np.ndindex(5, 5):
        four = body.up[0](narrow[0, :, row // 2, column // 2]).view(6, 2, 2)
        cell = four[:, row % 2, column % 2] * gain + shift + wide[0, :, row, column]
        torch.testing.assert_close(got[0, :, row, column], cell.relu())


def test_too_many_halvings() -> None:
    with pytest.raises(ValueError, match="cannot be halved 5 times; set halvings lower"):
        hourglass((4, 10, 10), halvings=5)


# --- Latent bits


def normal(*shape: int, seed: int = 2) -> Tensor:
    return torch.from_numpy(rng(seed).standard_normal(shape))


def values(n_bits: int) -> list[tuple[int, ...]]:
    """All values of n bits, the most significant bit first."""
    return list(product((0, 1), repeat=n_bits))


def prob_of(logits: Tensor, bits: tuple[int, ...]) -> float:
    """The probability of these bits, bit by bit."""
    total = 1.0
    for logit, bit in zip(logits.tolist(), bits, strict=True):
        one = 1 / (1 + np.exp(-logit))
        total *= one if bit else 1 - one
    return total


def test_kl_is_the_sum_over_all_values() -> None:
    logits, log_prior = normal(B, 3), normal(B, 8, seed=5).log_softmax(-1)
    for own, prior, got in zip(logits, log_prior, bits_kl(logits, log_prior), strict=True):
        probs = [prob_of(own, bits) for bits in values(3)]
        terms = [p * (np.log(p) - q) for p, q in zip(probs, prior.tolist(), strict=True)]
        assert float(got) == pytest.approx(sum(terms))
    same = bits_kl(logits, joint_log_probs(logits))
    assert same.abs().max() < 1e-12


def test_straight_through_gradient_is_centered_over_the_batch() -> None:
    """The loss is w'b: its gradient in the logits is p (1 - p) (w - mean w).

    Regression: without centering, all bits became 1 in the first updates, and stayed there.
    """
    logits = normal(B, 3).requires_grad_()
    weights = normal(B, 3, seed=4)
    (sample_bits(logits, uniform(B, 3)) * weights).sum().backward()
    probs = logits.detach().sigmoid()
    expected = probs * (1 - probs) * (weights - weights.mean(0))
    torch.testing.assert_close(logits.grad, expected)


@settings(deadline=None)
@given(st.lists(st.floats(-6, 6), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_sample_categorical_inverts_the_cumulative_probability(
    logits: list[float], point: float
) -> None:
    log_probs = torch.tensor([logits], dtype=torch.float64).log_softmax(-1)
    got = int(sample_categorical(log_probs, torch.tensor([point], dtype=torch.float64)))
    below = expected = 0.0
    for prob in log_probs[0].exp().tolist():
        below += prob
        if point < below:
            break
        expected += 1
    assert abs(got - expected) <= (1 if abs(point - below) < 1e-9 else 0)


@pytest.mark.parametrize("n_bits", [1, 3, GROUP, GROUP + 2])
def test_prior_samples_with_its_own_probabilities(n_bits: int) -> None:
    """Frequencies of samples against exp(-KL) of a deterministic posterior."""
    prior = BitPrior(n_bits, 4, 6, rng())
    context = uniform(1, 4).expand(4000, 4)
    drawn = prior.sample(context, uniform(4000, prior.n_groups, seed=8))
    assert drawn.shape == (4000, n_bits)
    sure = 30.0 * (2 * drawn - 1)  # a deterministic posterior, whose KL is -log p
    found = (-prior.kl(context, sure, drawn)).exp()
    often = {}
    for bits, prob in zip(drawn.tolist(), found.tolist(), strict=True):
        count, _ = often.get(tuple(bits), (0, 0.0))
        often[tuple(bits)] = (count + 1, prob)
    for count, prob in sorted(often.values())[-5:]:
        assert count / 4000 == pytest.approx(prob, abs=0.03)
    if n_bits == 3:
        assert sum(prob for _, prob in often.values()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("pull", [0.0, 0.3, 1.0])
def test_pull_scales_the_gradient_of_the_posterior(pull: float) -> None:
    prior = BitPrior(4, 3, 5, rng()).double()
    context, bits = normal(B, 3), (normal(B, 4) > 0).double()
    full = normal(B, 4, seed=9).requires_grad_()
    part = full.detach().clone().requires_grad_()
    prior.kl(context, full, bits).sum().backward()
    whole = [x.grad.clone() for x in prior.parameters() if x.grad is not None]
    prior.zero_grad()
    prior.kl(context, part, bits, pull).sum().backward()
    assert full.grad is not None
    assert part.grad is not None
    torch.testing.assert_close(part.grad, pull * full.grad)
    own = [x.grad for x in prior.parameters() if x.grad is not None]
    assert len(own) == len(whole)
    for one, other in zip(own, whole, strict=True):
        torch.testing.assert_close(one, other)
