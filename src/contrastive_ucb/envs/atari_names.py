"""The games of Atari 100K, and one name for all the usual spellings of a game."""

import re

ATARI_100K = (
    "Alien",
    "Amidar",
    "Assault",
    "Asterix",
    "BankHeist",
    "BattleZone",
    "Boxing",
    "Breakout",
    "ChopperCommand",
    "CrazyClimber",
    "DemonAttack",
    "Freeway",
    "Frostbite",
    "Gopher",
    "Hero",
    "Jamesbond",
    "Kangaroo",
    "Krull",
    "KungFuMaster",
    "MsPacman",
    "Pong",
    "PrivateEye",
    "Qbert",
    "RoadRunner",
    "Seaquest",
    "UpNDown",
)
TWO_PLAYERS_ONLY = ("combat", "joust", "maze_craze", "warlords")  # ALE ends the process on these


def letters(name: str) -> str:
    """What all spellings of a game share: "ALE/RoadRunner-v5", "road_runner" -> "roadrunner"."""
    name = re.sub(r"((NoFrameskip|Deterministic)?-v\d+)?$", "", name.removeprefix("ALE/"))
    return re.sub("[^a-z0-9]", "", name.lower())


def title(rom: str) -> str:
    """A ROM's name as tables write it: "road_runner" -> "RoadRunner"."""
    return rom.title().replace("_", "")


def roms() -> dict[str, str]:
    """The ROMs that one player can play, by their letters; without ale-py those of Atari 100K."""
    try:
        from ale_py.roms import get_all_rom_ids
    except ImportError:
        ids = [re.sub(r"(?<=.)([A-Z])", r"_\1", game).lower() for game in ATARI_100K]
    else:
        ids = [rom for rom in get_all_rom_ids() if rom not in TWO_PLAYERS_ONLY]
    return {letters(rom): rom for rom in ids}
