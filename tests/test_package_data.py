"""The package data of pyproject.toml covers all data files of the package."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def test_every_data_file_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package_data = settings["tool"]["setuptools"]["package-data"]
    existing = {
        path
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "egg-info" not in str(path)
    }
    installed = {
        path
        for package, patterns in package_data.items()
        for pattern in patterns
        for path in (SOURCE / package.replace(".", "/")).glob(pattern)
    }
    assert existing == installed
    assert {path.suffix for path in existing} >= {".toml", ".csv"}


def test_extras_and_pins_are_complete() -> None:
    """`dev` contains all other extras, and every named dependency has a pin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = ["atari", "minatar", "minigrid", "games", "sb3", "ray", "video", "docs"]
    assert set(extras) == {*names, "dev"}
    assert extras["dev"][0] == f"contrastive-ucb[{','.join(names)}]"
    requirements = [*project["dependencies"], *(r for extra in extras.values() for r in extra)]
    wanted = {name_of(requirement) for requirement in requirements} - {"contrastive-ucb"}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {name_of(line) for line in lines if "==" in line}
    assert wanted <= pinned
    assert "torch==2.13.0" in lines


def name_of(requirement: str) -> str:
    """The normalized name of the package."""
    name = requirement
    for mark in "[;=<>! ":
        name = name.partition(mark)[0]
    return name.lower().replace("_", "-")
