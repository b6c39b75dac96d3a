"""The games of Atari 100K, and canonical names of Atari games."""

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
TWO_PLAYERS_ONLY = ("combat", "joust", "maze_craze", "warlords")  # ALE exits on these


def name_key(name: str) -> str:
    """Key shared by all spellings: "ALE/RoadRunner-v5", "road_runner" -> "roadrunner"."""
    name = re.sub(r"((NoFrameskip|Deterministic)?-v\d+)?$", "", name.removeprefix("ALE/"))
    return re.sub("[^a-z0-9]", "", name.lower())


def game_name(rom: str) -> str:
    """Canonical name of a ROM: "road_runner" -> "RoadRunner"."""
    return rom.title().replace("_", "")


def roms() -> dict[str, str]:
    """Key -> ROM of all single-player games; without ale-py those of Atari 100K."""
    try:
        from ale_py.roms import get_all_rom_ids
    except ImportError:
        ids = [re.sub(r"(?<=.)([A-Z])", r"_\1", game).lower() for game in ATARI_100K]
    else:
        ids = [rom for rom in get_all_rom_ids() if rom not in TWO_PLAYERS_ONLY]
    return {name_key(rom): rom for rom in ids}
