"""`python -m build` makes a wheel and an sdist; the wheel works in a new environment."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="build is not installed")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
EXTRAS = [
    *("ale_py", "cv2", "minatar", "minigrid", "pettingzoo", "stable_baselines3", "ray"),
    *("imageio", "imageio_ffmpeg", "mkdocs", "playwright", "pytest", "hypothesis"),
]


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed, without the source tree on the path."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist, built from a copy of the tracked files."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith("results/"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ".", cwd=source)
    return folder


def test_the_wheel_has_all_files_of_the_package(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "contrastive_ucb").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert wanted <= names
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        packed = {name.partition("/")[2] for name in content.getnames()}
    assert {f"src/{name}" for name in wanted} | {"README.md", "LICENSE", "pyproject.toml"} <= packed


def test_the_wheel_solves_a_lock_in_a_new_environment(dist: Path, tmp_path: Path) -> None:
    """The dependencies are those of this environment, but packages of extras cannot be imported."""
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*install, "--no-deps", wheel, cwd=tmp_path)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    (packages / "sitecustomize.py").write_text(blocked)
    place = run(python, "-c", "import contrastive_ucb as c; print(c.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(tmp_path)
    cucb = tmp_path / "venv" / "bin" / "cucb"
    printed = run(cucb, "solve", "lock", "--horizon", "3", "--rounds", "20", cwd=tmp_path)
    assert "contrastive-ucb on lock" in printed
    assert "26 games" in run(cucb, "sweep", "--help", cwd=tmp_path)
