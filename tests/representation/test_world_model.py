"""The world model: losses against plain sums, frames it draws, and two worlds it can learn."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from contrastive_ucb.representation.world_model import (
    LEVELS,
    FrameKind,
    Outcome,
    WorldModel,
    frame_kind,
)

B, K, A, N = 4, 2, 3, 5
MARKS, PIXELS, VECTOR = (2, 6, 6), (1, 8, 8), (3,)
KINDS: list[tuple[FrameKind, tuple[int, ...]]] = [
    ("bernoulli", MARKS),
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
    return WorldModel(shape, K, A, N, rng(), kind=kind, frame_max=most, **{**usual, **sizes})


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


def test_the_kind_follows_from_the_frames() -> None:
    assert frame_kind((1, 84, 84), 255.0) == "softmax"
    assert frame_kind((4, 10, 10), 1.0) == "bernoulli"
    assert frame_kind((100,), 1.0) == "gaussian"


@pytest.mark.parametrize(("kind", "shape"), KINDS)
def test_outcomes_have_the_shapes_of_a_step(kind: FrameKind, shape: tuple[int, ...]) -> None:
    model, history = model_of(kind, shape), history_of(kind, shape)
    outcome = model.foresee(history, ACTIONS, uniform(B, 1))
    levels = (LEVELS,) if kind == "softmax" else ()
    assert outcome.frame.shape == (B, *shape, *levels)
    assert outcome.reward.shape == (B, N)
    assert outcome.end.shape == (B,)
    drawn = model.draw_frame(outcome, history)
    assert drawn.shape == (B, *shape)
    assert drawn.dtype == history.dtype, "the policy reads it as it reads real frames"
    known, divergence = model.loss(history, ACTIONS, drawn, uniform(B, 3))
    assert known.frame.shape == outcome.frame.shape
    assert divergence.shape == (B,)
    assert (divergence >= 0).all()


def outcome_with(frame: Tensor) -> Outcome:
    return Outcome(frame, torch.zeros(len(frame), N), torch.zeros(len(frame)))


def test_loss_of_marks_is_a_sum_over_cells() -> None:
    model, logits = model_of("bernoulli", MARKS), torch.randn(B, *MARKS)
    target = frames("bernoulli", B, *MARKS)
    got = model.frame_loss(outcome_with(logits), target, target)
    for row in range(B):
        total = 0.0
        for logit, mark in zip(logits[row].flatten(), target[row].flatten(), strict=True):
            prob = 1 / (1 + math.exp(-float(logit)))
            total -= math.log(prob if mark else 1 - prob)
        assert float(got[row]) == pytest.approx(total, rel=1e-4)


def test_loss_of_pixels_is_a_sum_and_has_a_floor() -> None:
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
    assert sure.grad.abs().max() == 0, "what is good enough is not pushed further"


def test_loss_of_vectors_is_half_the_square_in_units_of_the_usual_change() -> None:
    model, history = model_of("gaussian", VECTOR), history_of("gaussian", VECTOR)
    model.measure(torch.tensor([[-9.0] * 3, [9.0] * 3]), torch.tensor([[2.0, 1.0, 4.0]] * 3))
    assert model.change.tolist() == [2.0, 1.0, 4.0]
    target = history[:, 3:] + torch.tensor([2.0, 1.0, 4.0])
    right = outcome_with(torch.ones(B, 3))
    assert model.frame_loss(right, history, target).abs().max() < 1e-9
    wrong = outcome_with(torch.tensor([[1.0, 1.0, 3.0]] * B))
    assert model.frame_loss(wrong, history, target).tolist() == pytest.approx([2.0] * B, rel=1e-4)
    torch.testing.assert_close(model.draw_frame(right, history), target)


def test_drawn_vectors_stay_in_the_range_that_was_seen() -> None:
    model, history = model_of("gaussian", VECTOR), history_of("gaussian", VECTOR)
    seen = torch.tensor([[-1.0, 0.0, -2.0], [1.0, 0.5, 2.0]])
    model.measure(seen, torch.tensor([[0.0, 0.0, 0.0]]))
    assert model.change.tolist() == [1.0] * 3, "nothing moved, so nothing is said about sizes"
    far = model.draw_frame(outcome_with(torch.full((B, 3), 100.0)), history)
    assert far.tolist() == [[1.0, 0.5, 2.0]] * B


def test_constant_numbers_do_not_become_infinitely_loud() -> None:
    model = model_of("gaussian", VECTOR)
    model.measure(torch.zeros(2, 3), torch.tensor([[4.0, 0.0, 0.0]]))
    assert model.change.tolist() == pytest.approx([4.0, 0.2, 0.2])


def test_numbers_beyond_frame_max_are_no_marks() -> None:
    """The loss of an entry above 1 was below 0, counted as 0, and no frame was ever learnt."""
    model, big = model_of("bernoulli", MARKS), np.zeros((2, *MARKS), np.uint8)
    model.check(big)
    big[1, 0, 2, 3] = 1
    model.check(big)
    big[1, 1, 5, 0] = 10
    says = "a frame has an entry 10, and frame_max is 1; --set frame_max=10, or the largest"
    with pytest.raises(ValueError, match=says) as error:
        model.check(big)
    assert "\n" not in str(error.value)
    model_of("softmax", MARKS).check(big)
    model_of("gaussian", VECTOR).check(np.array([[9.0, -9.0, 99.0]], np.float32))


def test_a_new_model_of_marks_expects_what_it_sees() -> None:
    model, history = model_of("bernoulli", MARKS), history_of("bernoulli", MARKS)
    outcome = model.foresee(history, ACTIONS, uniform(B, 1))
    assert model.draw_frame(outcome, history).equal(history[:, -MARKS[0] :])


@pytest.mark.parametrize("pull", [0.0, 1.0])
def test_the_posterior_is_held_to_the_prior_as_much_as_is_asked(pull: float) -> None:
    model, history = model_of("bernoulli", MARKS), history_of("bernoulli", MARKS)
    model.pull = pull
    _, divergence = model.loss(history, ACTIONS, frames("bernoulli", B, *MARKS), uniform(B, 3))
    divergence.sum().backward()
    held = [x.grad for x in model.posterior.parameters()]
    assert all(x is not None and bool(x.any()) is (pull > 0) for x in held)


def steps_of(world: str, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One mark in a row of six. It moves by the action, 0 to 2, less one; in a windy world it goes
    on another step to the right every second time. In the last cell the step pays.

    Returns histories of two frames, actions, next frames and rewards.
    """
    draw = rng(seed)
    place, action = draw.integers(0, 6, count), draw.integers(0, A, count)
    wind = draw.integers(0, 2, count) if world == "windy" else np.zeros(count, np.int64)
    after = np.clip(place + action - 1 + wind, 0, 5)
    rows = np.eye(6, dtype=np.uint8)[:, None, None, :]  # (6, 1, 1, 6)
    shown = np.repeat(rows, 3, axis=2)  # three rows, all the same
    history = np.concatenate([shown[place], shown[place]], axis=1)
    paid = (place == 5).astype(np.int64)
    return tuple(torch.from_numpy(x) for x in (history, action, shown[after], paid))  # type: ignore[return-value]


def learnt(world: str, updates: int = 250) -> WorldModel:
    sizes = {"width": 8, "halvings": 1, "n_bits": 2, "hidden": 16, "pull": 0.3}
    model = WorldModel((1, 3, 6), 2, A, 2, rng(), kind="bernoulli", **sizes)  # type: ignore[arg-type]
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    draw = rng(5)
    for turn in range(updates):
        history, action, target, paid = steps_of(world, 64, 100 + turn)
        noise = torch.from_numpy(draw.random((64, 2), dtype=np.float32))
        outcome, divergence = model.loss(history, action, target, noise)
        loss = (model.frame_loss(outcome, history, target) + divergence).mean()
        loss = loss + torch.nn.functional.cross_entropy(outcome.reward, paid)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def test_it_learns_a_world_without_chance() -> None:
    model = learnt("calm")
    history, action, target, paid = steps_of("calm", 200, 1)
    outcome = model.foresee(history, action, uniform(200, 1))
    assert (model.draw_frame(outcome, history) == target).flatten(1).all(1).float().mean() > 0.97
    assert (outcome.reward.argmax(-1) == paid).float().mean() > 0.97


def test_bits_tell_what_chance_does() -> None:
    """In the wind both places come up about as often, and never both or none of them."""
    model = learnt("windy", updates=400)
    history = steps_of("windy", 1, 3)[0]
    history[:] = 0
    history[..., 2] = 1
    many = history.expand(400, -1, -1, -1)
    stays = torch.ones(400, dtype=torch.int64)
    drawn = model.draw_frame(model.foresee(many, stays, uniform(400, 1)), many)[:, 0, 1]
    places = drawn.argmax(-1)
    assert (drawn.sum(-1) == 1).float().mean() > 0.9
    often = torch.bincount(places, minlength=6) / 400
    assert float(often[2]) == pytest.approx(0.5, abs=0.2)
    assert float(often[3]) == pytest.approx(0.5, abs=0.2)
