"""The way to Ray: what is said where there is none, without Ray itself."""

import importlib.util
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from contrastive_ucb.core.errors import UserError
from contrastive_ucb.runs import ray as ray_session
from contrastive_ucb.runs.grid import Resources
from contrastive_ucb.runs.ray import RaySession, check_address


@pytest.fixture(autouse=True)
def _ray_is_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ray_session, "check_installed", lambda: None)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def listener() -> Iterator[str]:
    """A port that takes connections and never says a word."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield f"127.0.0.1:{silent.getsockname()[1]}"


class FakeRay:
    def __init__(self, *nodes: dict[str, float]) -> None:
        self._nodes, self.options, self.ended = nodes, {}, 0  # type: ignore[var-annotated]

    def init(self, address: str, **options: Any) -> None:
        self.options = {"address": address, **options}

    def nodes(self) -> list[dict[str, Any]]:
        dead = {"Alive": False, "Resources": {"CPU": 99, "GPU": 99}}
        return [dead, *({"Alive": True, "Resources": node} for node in self._nodes)]

    def shutdown(self) -> None:
        self.ended += 1


def fake(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, float]) -> FakeRay:
    ray = FakeRay(*nodes)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    return ray


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'contrastive-ucb\[ray\]'"):
        RaySession()


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "head.cluster:6379", "[::1]:6379", "auto"])
def test_addresses(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("address", ["", "head", "6379", ":6379", "head:ray", "ray://head:10001"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UserError, match="address must be HOST:PORT"):
        check_address(address)


def test_nobody_listens(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for wrong in (address, "no-such-host.invalid:6379", "127.0.0.1:99999"):
            with pytest.raises(UserError, match=r"nothing answers at .*; start one") as caught:
                RaySession(wrong).ray()
            assert "\n" not in str(caught.value)


def test_somebody_listens_who_is_not_ray(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would wait for minutes."""
    monkeypatch.setattr(ray_session, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(ray_session, "JOIN", "import time; time.sleep(60)")
    with pytest.raises(UserError, match=r"cannot join .* \(no answer in 0.5 s\); start one"):
        RaySession(listener).ray()


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ("raise SystemExit('one\\ntwo')", r"\(two\); start one with ray start --head"),
        ("class AuthenticationError(Exception): pass\nraise AuthenticationError", "RAY_AUTH_MODE"),
        ("raise SystemExit(1)", "no reason given"),
    ],
)
def test_ray_refuses(join: str, says: str, listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_session, "JOIN", join)
    with pytest.raises(UserError, match=says) as caught:
        RaySession(listener).ray()
    assert "\n" not in str(caught.value)


def test_joining_a_cluster(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setattr(ray_session, "JOIN", f"import sys; assert sys.argv[1] == {listener!r}")
    ray, session = fake(monkeypatch, {"CPU": 2}, {"CPU": 1, "GPU": 1}), RaySession(listener)
    assert session.ray() is ray
    assert ray.options["address"] == listener
    assert ray.options["log_to_driver"] is False
    assert "RAY_AUTH_TOKEN" not in os.environ  # it is the user who has the one of the cluster
    assert session.missing(Resources(2)) is None
    assert session.missing(Resources(1, 1)) is None
    # Together they have it, but a run is on one node; another one may join.
    assert "no node has them now; such runs wait" in str(session.missing(Resources(2, 1)))
    session.close()
    session.close()
    assert ray.ended == 1


def test_a_ray_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_session, "cores", lambda: 7)
    ray, session = fake(monkeypatch, {"CPU": 7}), RaySession()
    assert session.ray() is session.ray() is ray
    options = ray.options
    assert (options["address"], options["num_cpus"]) == ("local", 7)
    assert options["include_dashboard"] is False
    assert os.environ["RAY_AUTH_TOKEN"]
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    with pytest.raises(UserError, match=r"asks for 8 cpus and 0 gpus, and there are 7 and 0 here"):
        session.missing(Resources(8))
    assert os.path.isdir(options["_temp_dir"])
    session.close()
    assert not os.path.exists(options["_temp_dir"])
    assert ray.ended == 1


def test_a_ray_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, session = fake(monkeypatch), RaySession()

    def init(address: str, **options: Any) -> None:
        raise RuntimeError("no\nroom")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(UserError, match=r"Ray does not start \(RuntimeError: no room\); use"):
        session.ray()
    session.close()
    assert ray.ended == 1  # what was begun of it
