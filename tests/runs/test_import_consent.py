"""Reading a run folder imports a module that it names only with consent."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.runs import TINY

import contrastive_ucb as cu
from contrastive_ucb.cli import main

MODULE = "module_of_a_run"
ENV = f"{MODULE}:NamedByARun-v0"
TRAIN = f"train {ENV} --set {TINY} support=0,10 --steps 24 --eval-episodes 1 --threads 1"
SOLVE = f"solve gym --id {ENV} --horizon 3 --rounds 1 --trajectories 4 --fit-steps 2"
SOLVE += " --batch-size 16 --n-negatives 16 --n-draws 12"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of the user; the tests forget that it was imported."""
    (tmp_path / f"{MODULE}.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('NamedByARun-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(MODULE, None)


@pytest.mark.usefixtures("module")
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize("words", [TRAIN, SOLVE], ids=["train", "solve"])
def test_the_module_of_a_run_is_imported_with_consent_only(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--out", "runs"]) == 0, capsys.readouterr().err  # typed: consent
    assert MODULE in sys.modules
    run: Any = next(path.parent for path in Path("runs").rglob("DONE"))
    cu.load(run).save("saved")  # the module is there already
    for folder in (run, Path("saved")):
        refuses(lambda folder=folder: cu.load(folder))
        assert cu.load(folder, allow_import=True).evaluate(episodes=1)["episodes"] == 1
        assert MODULE in sys.modules
    for words in ("status runs", "report runs --out page.html", "reproduce table --runs runs"):
        forget()
        assert main(words.split()) == 0
        assert MODULE not in sys.modules


@pytest.mark.usefixtures("module")
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_commands_that_play_need_consent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN.split(), "--out", "runs"]) == 0
    for command in ("eval", "play"):
        words = [command, "runs", "--episodes", "1"]
        forget()
        capsys.readouterr()
        assert main(words) == 2
        says_how(capsys.readouterr().err)
        assert MODULE not in sys.modules
        assert main([*words, "--allow-import"]) == 0


def forget() -> None:
    sys.modules.pop(MODULE, None)


def refuses(load: Callable[[], Any]) -> None:
    forget()
    with pytest.raises(ValueError, match=MODULE) as error:
        load()
    says_how(str(error.value))
    assert MODULE not in sys.modules


def says_how(text: str) -> None:
    for part in (repr(MODULE), "allow_import=True", "--allow-import"):
        assert part in text
    assert len(text.splitlines()) == 1
