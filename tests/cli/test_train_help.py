"""`cucb train --help`: every setting with its value, what it takes and what it means."""

import re

import pytest

from contrastive_ucb.agents.deep.config import BonusConfig, ExplorerConfig, RainbowConfig
from contrastive_ucb.agents.deep.presets import configure
from contrastive_ucb.agents.ppo.config import PPOConfig
from contrastive_ucb.agents.simple.config import SimpleConfig
from contrastive_ucb.bonus import BONUS_NAMES
from contrastive_ucb.bonus.config import bonus_settings, setting_kind
from contrastive_ucb.cli import main
from contrastive_ucb.cli.train import _meanings as meanings
from contrastive_ucb.core.checks import kinds_of, takes
from contrastive_ucb.envs.registry import frame_shape_of
from contrastive_ucb.runs.training import read_settings


def help_of_train(capsys: pytest.CaptureFixture[str], option: str = "--help") -> str:
    assert main(["train", option]) == 0
    return capsys.readouterr().out


def test_the_help_has_the_common_options_and_fits_on_two_screens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = help_of_train(capsys).splitlines()
    assert len(lines) <= 100
    for option in ("--algo", "--steps", "--seed", "--set", "--out", "--json", "--help-settings"):
        assert any(option in line for line in lines)


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        (RainbowConfig, ""),
        (BonusConfig, "bonus."),
        (ExplorerConfig, "explorer."),
        (SimpleConfig, ""),
        (PPOConfig, ""),
    ],
)
def test_every_setting_is_shown_with_its_meaning(
    settings: type, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(help_of_train(capsys, "--help-settings").split())
    found = meanings(settings)
    assert found.keys() == kinds_of(settings).keys()
    for name in found.keys() - {"bonus", "explorer", "intrinsic"}:
        key = re.escape(prefix + name)
        what = re.escape(takes(name, kinds_of(settings)[name]))
        assert re.search(rf" {key} \S+ {what} {re.escape(found[name])}", said), name


def test_every_setting_of_every_bonus_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = help_of_train(capsys, "--help-settings").splitlines()
    (start,) = [number for number, line in enumerate(lines) if "bonuses of the toolkit" in line]
    shown = [line.split()[0] for line in lines[start:] if line.startswith("  intrinsic.")]
    known = {f"intrinsic.{name}" for bonus in BONUS_NAMES for name in bonus_settings(bonus)}
    assert sorted(shown) == sorted(known)
    assert takes("hidden", setting_kind("hidden", "contrastive")) == "whole numbers such as 64,64"


def test_a_meaning_does_not_end_at_an_abbreviation(capsys: pytest.CaptureFixture[str]) -> None:
    said = " ".join(help_of_train(capsys, "--help-settings").split())
    assert "(Fortunato et al. 2018)" in said
    assert "(Schaul et al. 2016)" in said


def test_examples_of_values_can_be_set() -> None:
    for settings in (RainbowConfig, SimpleConfig):
        for name, kind in kinds_of(settings).items():
            if example := re.search("such as ([0-9.,]*[0-9])", takes(name, kind)):
                settings(**read_settings([f"{name}={example[1]}"]))  # checks them
    assert takes("support", kinds_of(RainbowConfig)["support"]) == "2 numbers such as 0,10, or none"


def test_the_example_of_a_command_changes_what_it_sets(capsys: pytest.CaptureFixture[str]) -> None:
    said = help_of_train(capsys)
    (line,) = [line for line in said.splitlines() if "cucb train DeepSea-10 --set" in line]
    words = line.split()
    settings = read_settings([word for word in words if "=" in word])
    assert len(settings) > 1
    shape = frame_shape_of("DeepSea-10")
    for key in settings:
        others = {name: value for name, value in settings.items() if name != key}
        assert configure("spr-ucb", settings, shape) != configure("spr-ucb", others, shape), key
