"""Names and ranges of settings; types are tested with the configurations themselves."""

from dataclasses import dataclass

import pytest

from contrastive_ucb.core.checks import (
    check_kinds,
    check_names,
    check_positive,
    check_range,
    hint,
)


@dataclass
class Some:
    number: float = 1.0
    pair: tuple[float, float] = (0.0, 1.0)
    counts: tuple[int, ...] = ()


def test_unknown_names_come_with_the_nearest_one_or_with_all() -> None:
    assert hint("rouds", ["rounds", "bits"]) == "did you mean 'rounds'?"
    assert hint("xyz", ["rounds", "bits"]) == "choose from rounds, bits"
    check_names(["bits"], ["rounds", "bits"])
    with pytest.raises(ValueError, match="no setting is called 'BITS'; did you mean 'bits'"):
        check_names(["BITS"], ["rounds", "bits"])
    with pytest.raises(ValueError, match="no setting is called 'bit'; did you mean 'bits'"):
        check_names(["rounds", "bit"], ["rounds", "bits"])


def test_ranges_include_their_limits_and_look_at_every_part() -> None:
    check_range(Some(), number=(1, 1), pair=(0, 1))
    with pytest.raises(ValueError, match=r"my.pair must be in \[0, 0.5\], got \(0.0, 1.0\)"):
        check_range(Some(), "my.", pair=(0, 0.5))
    with pytest.raises(ValueError, match=r"number must be at least 2, got 1\.0"):
        check_range(Some(), number=(2, float("inf")))


def test_positive_is_more_than_nothing() -> None:
    check_positive(Some(), "number")
    with pytest.raises(ValueError, match=r"number must be positive, got 0\.0"):
        check_positive(Some(number=0.0), "number")


def test_whole_numbers_become_real_ones_and_empty_tuples_are_tuples() -> None:
    some = Some(number=3)
    check_kinds(some)
    assert type(some.number) is float
    with pytest.raises(ValueError, match=r"counts takes whole numbers such as .*, got \(1.5,\)"):
        check_kinds(Some(counts=(1.5,)))  # type: ignore[arg-type]
