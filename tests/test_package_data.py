"""An installed package has the data files that its code reads."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def test_every_data_file_is_named_in_the_package_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = settings["tool"]["setuptools"]["package-data"]
    there = {
        path
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "egg-info" not in str(path)
    }
    taken = {
        path
        for package, patterns in named.items()
        for pattern in patterns
        for path in (SOURCE / package.replace(".", "/")).glob(pattern)
    }
    assert there == taken
    assert {path.suffix for path in there} >= {".toml", ".csv"}
