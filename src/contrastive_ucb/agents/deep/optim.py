"""One step of gradient descent, which stops before a NaN reaches a weight and says where it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def descend(
    optimiser: torch.optim.Optimizer,
    network: nn.Module,
    groups: Iterable[tuple[list[nn.Parameter], float]],
    loss: Tensor,
) -> None:
    """Move the parameters of the network down the gradient of `loss` ().

    groups  of parameters, each with the largest norm that its gradient may have
    """
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    for group, limit in groups:
        norm = get_total_norm([x.grad for x in group if x.grad is not None], foreach=True)
        if not torch.isfinite(norm):
            gradients = {k: x.grad for k, x in network.named_parameters()}
            name = not_finite({k: x for k, x in gradients.items() if x is not None})
            raise ArithmeticError(f"the gradient of {name} has a NaN or infinite entry")
        if norm > limit:
            clip_grads_with_norm_(group, limit, norm, foreach=True)
    optimiser.step()


@contextmanager
def naming(network: nn.Module, when: str) -> Iterator[None]:
    """An error of arithmetic inside names the broken weight, if one is, and `when` it was."""
    try:
        yield
    except ArithmeticError as error:
        broken = not_finite(network.state_dict())
        what = f"the weight {broken} has a NaN or infinite entry" if broken else error
        raise ArithmeticError(f"{what}, in {when}") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The first of the named tensors that has an entry which is no finite number."""
    broken = (name for name, value in tensors.items() if not torch.isfinite(value).all())
    return next(broken, None)
