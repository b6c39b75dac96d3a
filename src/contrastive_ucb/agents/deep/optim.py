"""One optimizer step that raises an error, with its location, before a NaN reaches a weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def gradient_step(
    optimizer: torch.optim.Optimizer,
    network: nn.Module,
    groups: Iterable[tuple[list[nn.Parameter], float]],
    loss: Tensor,
) -> None:
    """One optimizer step on `loss` (), with gradient clipping.

    groups  of parameters, each with the largest allowed norm of its gradient
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for group, limit in groups:
        norm = get_total_norm([x.grad for x in group if x.grad is not None], foreach=True)
        if not torch.isfinite(norm):
            gradients = {k: x.grad for k, x in network.named_parameters()}
            name = not_finite({k: x for k, x in gradients.items() if x is not None})
            raise ArithmeticError(f"the gradient of {name} has a NaN or infinite entry")
        if norm > limit:
            clip_grads_with_norm_(group, limit, norm, foreach=True)
    optimizer.step()


@contextmanager
def error_location(network: nn.Module, location: str) -> Iterator[None]:
    """Add the location, and the first non-finite weight if any, to an ArithmeticError."""
    try:
        yield
    except ArithmeticError as error:
        broken = not_finite(network.state_dict())
        what = f"the weight {broken} has a NaN or infinite entry" if broken else error
        raise ArithmeticError(f"{what}, in {location}") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with a NaN or infinite entry."""
    broken = (name for name, value in tensors.items() if not torch.isfinite(value).all())
    return next(broken, None)
