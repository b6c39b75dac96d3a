"""Checks that many classes share."""


def check_size(name: str, value: int, least: int = 1) -> None:
    """Stop unless the count `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
