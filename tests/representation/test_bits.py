"""Bits drawn, counted and foreseen, each against a loop over all values they can have."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from contrastive_ucb.representation.world_model import (
    GROUP,
    BitPrior,
    bits_of,
    draw_bits,
    draw_codes,
    kl_codes,
    log_codes,
)

B = 5


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def uniform(*shape: int, seed: int = 1) -> Tensor:
    return torch.from_numpy(rng(seed).random(shape, dtype=np.float32))


def normal(*shape: int, seed: int = 2) -> Tensor:
    return torch.from_numpy(rng(seed).standard_normal(shape))


def values(n_bits: int) -> list[tuple[int, ...]]:
    """All values of n bits, as they are counted: the first bit is the heaviest."""
    return list(product((0, 1), repeat=n_bits))


def prob_of(logits: Tensor, bits: tuple[int, ...]) -> float:
    """The probability of these bits, one after the other."""
    total = 1.0
    for logit, bit in zip(logits.tolist(), bits, strict=True):
        one = 1 / (1 + np.exp(-logit))
        total *= one if bit else 1 - one
    return total


@pytest.mark.parametrize("n_bits", [1, 3, 5])
def test_codes_are_products_of_bits(n_bits: int) -> None:
    logits = normal(B, n_bits)
    codes = log_codes(logits).exp()
    for row, own in zip(codes, logits, strict=True):
        assert row.tolist() == pytest.approx([prob_of(own, bits) for bits in values(n_bits)])


@pytest.mark.parametrize("n_bits", [1, 3, 5])
def test_a_code_says_which_bits_it_is(n_bits: int) -> None:
    got = bits_of(torch.arange(2**n_bits), n_bits)
    assert got.tolist() == [list(map(float, bits)) for bits in values(n_bits)]


def test_divergence_is_the_sum_over_all_values() -> None:
    logits, log_prior = normal(B, 3), normal(B, 8, seed=5).log_softmax(-1)
    for own, prior, got in zip(logits, log_prior, kl_codes(logits, log_prior), strict=True):
        probs = [prob_of(own, bits) for bits in values(3)]
        terms = [p * (np.log(p) - q) for p, q in zip(probs, prior.tolist(), strict=True)]
        assert float(got) == pytest.approx(sum(terms))
    same = kl_codes(logits, log_codes(logits))
    assert same.abs().max() < 1e-12


def test_drawn_bits_are_as_likely_as_their_logits_say() -> None:
    logits = torch.tensor([[-2.0, 0.0, 1.5]]).expand(20_000, 3)
    drawn = draw_bits(logits, uniform(20_000, 3))
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), logits[0].sigmoid(), atol=0.02)


def test_bits_have_the_gradient_of_their_probabilities_without_what_all_samples_share() -> None:
    """The loss is w'b: its gradient in the logits is p (1 - p) (w - mean w)."""
    logits = normal(B, 3).requires_grad_()
    weights = normal(B, 3, seed=4)
    (draw_bits(logits, uniform(B, 3)) * weights).sum().backward()
    probs = logits.detach().sigmoid()
    expected = probs * (1 - probs) * (weights - weights.mean(0))
    torch.testing.assert_close(logits.grad, expected)


def test_no_bit_becomes_a_constant_because_all_samples_want_it() -> None:
    """What went wrong: in the first updates all bits went to 1, as a bias would, and stayed."""
    logits = normal(B, 3).requires_grad_()
    (draw_bits(logits, uniform(B, 3)) * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-12


@settings(deadline=None)
@given(st.lists(st.floats(-6, 6), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True))
def test_a_code_is_drawn_where_the_cumulated_probability_passes(
    logits: list[float], point: float
) -> None:
    log_probs = torch.tensor([logits], dtype=torch.float64).log_softmax(-1)
    got = int(draw_codes(log_probs, torch.tensor([point], dtype=torch.float64)))
    below = expected = 0.0
    for prob in log_probs[0].exp().tolist():
        below += prob
        if point < below:
            break
        expected += 1
    assert abs(got - expected) <= (1 if abs(point - below) < 1e-9 else 0)


def test_codes_of_no_probability_are_never_drawn() -> None:
    log_probs = torch.tensor([[0.0, 1.0, 0.0]]).log().log_softmax(-1).expand(100, 3)
    assert draw_codes(log_probs, uniform(100)).unique().tolist() == [1]
    last = torch.tensor([[1.0, 1.0, 0.0]]).log().log_softmax(-1)
    assert int(draw_codes(last, torch.tensor([1 - 1e-7]))) == 1


@pytest.mark.parametrize("n_bits", [1, 3, GROUP, GROUP + 2])
def test_prior_draws_what_it_foresees(n_bits: int) -> None:
    """Of one context: how often values come up, and what its divergence from them says."""
    prior = BitPrior(n_bits, 4, 6, rng())
    context = uniform(1, 4).expand(4000, 4)
    drawn = prior.sample(context, uniform(4000, prior.n_groups, seed=8))
    assert drawn.shape == (4000, n_bits)
    sure = 30.0 * (2 * drawn - 1)  # a posterior that is certain: its divergence is -log p
    found = (-prior.kl(context, sure, drawn)).exp()
    often = {}
    for bits, prob in zip(drawn.tolist(), found.tolist(), strict=True):
        count, _ = often.get(tuple(bits), (0, 0.0))
        often[tuple(bits)] = (count + 1, prob)
    for count, prob in sorted(often.values())[-5:]:
        assert count / 4000 == pytest.approx(prob, abs=0.03)
    if n_bits == 3:
        assert sum(prob for _, prob in often.values()) == pytest.approx(1, abs=1e-3)


def test_later_groups_know_the_earlier_ones() -> None:
    prior = BitPrior(GROUP + 1, 4, 6, rng())
    context, uniforms = uniform(2, 4)[:1].expand(2, 4), torch.full((2, 2), 0.5)
    logits = torch.zeros(2, GROUP + 1)
    bits = torch.zeros(2, GROUP + 1)
    bits[1, 0] = 1  # differs in the first group only
    one, other = prior.kl(context, logits, bits)
    assert one != other
    assert prior.sample(context, uniforms).equal(prior.sample(context, uniforms))


@pytest.mark.parametrize("pull", [0.0, 0.3, 1.0])
def test_pull_is_the_part_of_the_gradient_that_the_posterior_gets(pull: float) -> None:
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
