"""Each bonus against a loop over single transitions with explicit inverses, sums and products."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from bonus_data import ACTIONS, NEVER, SPACES, TRAINED, N, make, rows, transitions
from gymnasium import spaces

from contrastive_ucb.bonus import Training, make_bonus
from contrastive_ucb.bonus.contrastive_bonus import contrastive_logit_loss
from contrastive_ucb.bonus.dynamics import ForwardModels
from contrastive_ucb.bonus.fixed_features import FixedFeatures
from contrastive_ucb.bonus.rnd import Whitening
from contrastive_ucb.bonus.spaces import ObservationArrays
from contrastive_ucb.core.random_streams import stream

STEPS = 12


class SlowEllipses:
    """Explicit sums of phi phi' and their inverses, for all transitions and for each episode."""

    def __init__(self, dim: int, ridge: float = 1.0, episodic_ridge: float = 0.1):
        self.start = episodic_ridge * np.eye(dim)
        self.sigma, self.episode = ridge * np.eye(dim), [self.start] * N

    def step(self, features: np.ndarray, dones: np.ndarray) -> dict[str, list[float]]:
        lifelong = [np.sqrt(phi @ np.linalg.inv(self.sigma) @ phi) for phi in features]
        pairs = zip(features, self.episode, strict=True)
        episodic = [phi @ np.linalg.inv(c) @ phi for phi, c in pairs]
        product = [a * b for a, b in zip(lifelong, episodic, strict=True)]
        for env, phi in enumerate(features):
            self.sigma = self.sigma + np.outer(phi, phi)
            self.episode[env] = self.episode[env] + np.outer(phi, phi)
            if dones[env]:
                self.episode[env] = self.start
        return {"lifelong": lifelong, "episodic": episodic, "product": product}


def one_row(network: Any, observations: Any, row: int) -> np.ndarray:
    """The output of a network for one row of a grid."""
    with torch.no_grad():
        return network((observations[row : row + 1],)).double().numpy()[0]


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


@pytest.mark.parametrize("scope", ["lifelong", "episodic", "product"])
@pytest.mark.parametrize("name", ["elliptical", "contrastive", "e3b"])
def test_elliptical_bonuses_equal_explicit_inverses(name: str, scope: str) -> None:
    bonus, slow = make(name, scope=scope), SlowEllipses(5)
    network = {
        "elliptical": lambda: bonus.encoder,
        "contrastive": lambda: bonus.features_network.psi,
        "e3b": lambda: bonus.inverse,
    }[name]()
    for obs, actions, next_obs, dones in transitions("grid", STEPS):
        features = np.array([one_row(network, next_obs, row) for row in range(N)])
        expected = slow.step(features, dones)[scope]
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected, rtol=1e-4)


@pytest.mark.parametrize("of", ["next", "pair"])
def test_elliptical_of_one_hot_observations(of: str) -> None:
    bonus, visits = make("elliptical", "discrete", of=of), Counter[Any]()
    for obs, actions, next_obs, dones in transitions("discrete", STEPS):
        keys = list(next_obs) if of == "next" else list(zip(obs, actions, strict=True))
        expected = [1 / np.sqrt(1 + visits[key]) for key in keys]
        if of == "pair":
            chosen = bonus.of_actions(obs)[np.arange(N), actions - ACTIONS.start]
            np.testing.assert_allclose(chosen, expected)
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected)
        visits.update(keys)


def test_phi_of_the_taken_action() -> None:
    bonus = make("contrastive", feature="phi", scope="lifelong", critic="linear")
    slow, network = SlowEllipses(5), bonus.features_network
    for obs, actions, next_obs, dones in transitions("grid", STEPS):
        features = []
        for row, action in enumerate(actions - ACTIONS.start):
            heads = one_row(lambda x: network.phi_head(network.phi_encoder(x)), obs, row)
            head = heads[5 * action : 5 * (action + 1)]
            features.append(unit(np.log1p(np.exp(head)) + 1e-4))
        expected = slow.step(np.array(features), dones)["lifelong"]
        of_actions = bonus.of_actions(obs)[np.arange(N), actions - ACTIONS.start]
        np.testing.assert_allclose(of_actions, expected, rtol=1e-4)
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected, rtol=1e-4)


@pytest.mark.parametrize("scope", ["lifelong", "episodic", "product"])
@pytest.mark.parametrize("of", ["next", "pair"])
@pytest.mark.parametrize("space", ["discrete", "dict"])
def test_counts_equal_a_table(scope: str, of: str, space: str) -> None:
    bonus, visits = make("counts", space, scope=scope, of=of), Counter[str]()
    episode: list[set[str]] = [set() for _ in range(N)]
    for obs, actions, next_obs, dones in transitions(space, 30):
        # Few different observations, so that they repeat
        obs, next_obs = (x % 3 if space == "discrete" else _coarse(x) for x in (obs, next_obs))
        keys = [
            repr(rows(next_obs, env) if of == "next" else (rows(obs, env), actions[env]))
            for env in range(N)
        ]
        lifelong = np.array([(1 + visits[key]) ** -0.5 for key in keys])
        first = np.array([float(key not in episode[env]) for env, key in enumerate(keys)])
        expected = {"lifelong": lifelong, "episodic": first, "product": lifelong * first}[scope]
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected)
        visits.update(keys)
        for env, key in enumerate(keys):
            episode[env] = set() if dones[env] else episode[env] | {key}
    assert max(visits.values()) > 5


def _coarse(x: dict[str, Any]) -> dict[str, Any]:
    image = np.zeros_like(x["image"])
    image[:, 0, 0, 0] = x["image"][:, 0, 0, 0] % 2
    return {"image": image, "direction": x["direction"] % 2}


def test_both_zeros_of_a_vector_are_the_same_observation() -> None:
    bonus = make_bonus("counts", spaces.Box(-1, 1, (2,)), ACTIONS, keys="exact")
    zero = np.zeros((1, 2), np.float32)
    bonus.step(zero, [1], zero, [False])
    assert bonus.compute(zero, [1], -zero) == pytest.approx(1 / np.sqrt(2))


@pytest.mark.parametrize("space", ["grid", "vector"])
def test_hashed_counts_equal_counts_of_signs(space: str) -> None:
    bonus, visits = make("counts", space, keys="hash", bits=4), Counter[Any]()
    layer = bonus.planes[1]
    for obs, actions, next_obs, dones in transitions(space, STEPS):
        keys = []
        for row in range(N):
            if space == "grid":
                g = np.eye(11)[next_obs[row].ravel()].ravel()
            else:
                first, second = next_obs[row]
                g = np.array([first / 2, np.sign(second) * np.log1p(abs(second))])
            planes = zip(layer.weight.detach().numpy(), layer.bias.detach().numpy(), strict=True)
            keys.append(tuple(bool(normal @ g + offset > 0) for normal, offset in planes))
        expected = [(1 + visits[key]) ** -0.5 for key in keys]
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected)
        visits.update(keys)
    assert 1 < len(visits) < STEPS * N


@pytest.mark.parametrize(
    ("space", "through_0"), [("grid", True), ("image", True), ("vector", False)]
)
def test_only_planes_of_vectors_do_not_pass_through_0(space: str, through_0: bool) -> None:
    distances = make("counts", space, keys="hash").planes[1]
    with torch.no_grad():
        assert (distances(torch.zeros(1, distances.in_features)) == 0).all() == through_0


def test_rnd_is_the_squared_error_of_whitened_inputs() -> None:
    bonus = make("rnd", "vector")
    past = [np.zeros((1, 2))]
    for obs, actions, next_obs, dones in transitions("vector", STEPS):
        seen = np.concatenate(past)
        mean, square = seen.sum(0) / len(seen), (1 + (seen**2).sum(0)) / len(seen)
        x = ((next_obs - mean) / np.sqrt(square - mean**2)).clip(-5, 5)
        with torch.no_grad():
            inputs = (x.astype(np.float32),)
            target = bonus.networks.target(inputs).double().numpy()
            predicted = bonus.networks.predictor(inputs).double().numpy()
        expected = [((p - unit(t)) ** 2).sum() for p, t in zip(predicted, target, strict=True)]
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected, rtol=1e-3)
        past.append(next_obs)


def test_whitened_inputs_have_mean_0_and_variance_1() -> None:
    space = spaces.Dict(
        a=spaces.Box(0, 255, (40, 36, 3), np.uint8), b=SPACES["vector"], c=spaces.Discrete(3)
    )
    arrays = ObservationArrays(space)
    whitening, rng = Whitening(arrays.leaves), np.random.default_rng(0)
    n = 4000
    image = rng.integers(100, 110, (n, 40, 36, 3)).astype(np.uint8)
    vector = rng.normal([1, -200], [0.1, 50], (n, 2)).astype(np.float32)
    codes = rng.integers(0, 3, n)
    for part in np.split(np.arange(n), 8):
        whitening.update((image[part], vector[part], codes[part]))
    whitened = whitening((image[:500], vector, codes))
    for x in whitened[:2]:
        assert abs(x.mean()) < 0.02
        assert x.std() == pytest.approx(1, abs=0.03) if x is whitened[1] else x.std() < 1.01
    np.testing.assert_array_equal(whitened[2], codes)
    huge = whitening((image[:1], np.full((1, 2), 1e9, np.float32), codes[:1]))
    assert huge[1].max() == 5


def test_icm_is_half_the_squared_error_of_the_next_features() -> None:
    bonus = make("icm")
    for obs, actions, next_obs, dones in transitions("grid", STEPS):
        expected = []
        for row, action in enumerate(actions - ACTIONS.start):
            phi, target = (one_row(bonus.inverse, x, row) for x in (obs, next_obs))
            (predicted,) = slow_models(bonus.model, phi, np.eye(3)[action])
            expected.append(((predicted - target) ** 2).sum() / 2)
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected, rtol=1e-4)


def test_disagreement_is_the_variance_of_the_models() -> None:
    bonus = make("disagreement", models=4)
    for obs, actions, next_obs, dones in transitions("grid", STEPS):
        expected = []
        for row, action in enumerate(actions - ACTIONS.start):
            phi = one_row(bonus.encoder, obs, row)
            predictions = slow_models(bonus.models, phi, np.eye(3)[action])
            mean = sum(predictions) / 4
            expected.append(np.mean(sum((p - mean) ** 2 for p in predictions) / 4))
        np.testing.assert_allclose(bonus.step(obs, actions, next_obs, dones), expected, rtol=1e-4)


@pytest.mark.parametrize("space", SPACES)
def test_untrained_models_disagree_as_much_as_features_differ(space: str) -> None:
    bonus = make_bonus("disagreement", SPACES[space], ACTIONS, n_envs=N)
    obs, actions, next_obs, _ = next(transitions(space, 1))
    with torch.no_grad():
        features = bonus.encoder(bonus.arrays(next_obs)).numpy()  # type: ignore[attr-defined]
    assert bonus.lifelong(obs, actions, next_obs).mean() > np.square(features).mean()


@pytest.mark.parametrize("name", TRAINED)
def test_errors_of_prediction_train_on_the_latest_transitions(name: str) -> None:
    """RND and ICM; the others train on a sample of all transitions, which contains old ones."""
    bonus = make(name, "vector", Training(every=10**9, memory=2 * N))
    steps = list(transitions("vector", 20))
    for step in steps:
        bonus.step(*step)
    (stored,) = bonus.memory.all().next_obs
    latest = np.concatenate([step[2] for step in steps[-2:]]).astype(np.float32)
    kept = set(map(tuple, stored)) == set(map(tuple, latest))
    assert kept == (name in ("rnd", "icm"))


def slow_models(models: ForwardModels, phi: np.ndarray, action: np.ndarray) -> list[np.ndarray]:
    """The predictions of each model for one transition."""
    weights = [w.detach().double().numpy() for w in models.weights]
    biases = [b.detach().double().numpy() for b in models.biases]
    predictions = []
    for k in range(len(weights[0])):
        hidden = np.maximum(np.concatenate([phi, action]) @ weights[0][k] + biases[0][k, 0], 0)
        predictions.append(hidden @ weights[1][k] + biases[1][k, 0])
    return predictions


# Losses


def batch(name: str, **settings: Any) -> tuple[Any, Any]:
    """A bonus and 8 transitions."""
    bonus = make(name, **settings)
    for obs, actions, next_obs, dones in transitions("grid", 2):
        bonus.observe(obs, actions, next_obs, dones)
    return bonus, bonus.memory.all()


def test_the_contrastive_loss_equals_a_double_loop() -> None:
    logits = np.random.default_rng(0).normal(size=(6, 6)) * 3
    observed = sum(np.log(1 + np.exp(-logits[i, i])) for i in range(6)) / 6
    others = [np.log(1 + np.exp(logits[i, j])) for i in range(6) for j in range(6) if i != j]
    expected = (observed + sum(others) / len(others)) / 2
    assert contrastive_logit_loss(torch.from_numpy(logits)).item() == pytest.approx(expected)


@pytest.mark.parametrize("critic", ["exponential", "linear"])
def test_the_logits_of_both_critics(critic: str) -> None:
    bonus, data = batch("contrastive", critic=critic)
    network = bonus.features_network
    with torch.no_grad():
        network.log_scale.fill_(0.3)
        network.offset.fill_(-0.7)
        phi, psi = network.phi(data.obs, torch.from_numpy(data.actions)), network.psi(data.next_obs)
        logits = network.logits(phi, psi)
    for i in range(len(data)):
        for j in range(len(data)):
            product = float(phi[i] @ psi[j])
            expected = np.exp(0.3) * np.sqrt(5) * product - 0.7
            if critic == "linear":
                expected = np.log(product)
            assert float(logits[i, j]) == pytest.approx(expected, abs=1e-4)
    assert bonus._loss(data).item() == pytest.approx(contrastive_logit_loss(logits).item())


def test_the_loss_of_icm_weighs_both_models() -> None:
    bonus, data = batch("icm", forward_weight=0.3)
    errors, entropies = [], []
    for row in range(len(data)):
        phi, target = (one_row(bonus.inverse, x[0], row) for x in (data.obs, data.next_obs))
        (predicted,) = slow_models(bonus.model, phi, np.eye(3)[data.actions[row]])
        errors.append(((predicted - target) ** 2).sum() / 2)
        inputs = torch.from_numpy(np.concatenate([phi, target])).float()
        with torch.no_grad():
            logits = bonus.inverse.action(bonus.inverse.between(inputs).relu()).numpy()
        entropies.append(np.log(np.exp(logits).sum()) - logits[data.actions[row]])
    expected = 0.7 * np.mean(entropies) + 0.3 * np.mean(errors)
    assert bonus._loss(data).item() == pytest.approx(expected, rel=1e-4)


def test_each_model_of_disagreement_trains_on_its_own_rows() -> None:
    bonus, data = batch("disagreement", models=3)
    picked = np.random.default_rng(0).integers(0, len(data), (3, len(data)))
    bonus.memory.rng = np.random.default_rng(0)
    expected = 0.0
    for k in range(3):
        for row in picked[k]:
            phi, target = (one_row(bonus.encoder, x[0], row) for x in (data.obs, data.next_obs))
            predicted = slow_models(bonus.models, phi, np.eye(3)[data.actions[row]])[k]
            expected += ((predicted - target) ** 2).sum() / len(data)
    assert bonus._loss(data).item() == pytest.approx(expected, rel=1e-4)


def test_training_rnd_changes_the_predictor_only() -> None:
    bonus = make("rnd", training=Training(every=N, steps=3, batch_size=8, memory=20))
    states = [{k: v.clone() for k, v in bonus.networks.state_dict().items()}]
    for step in transitions("grid", 4):
        bonus.step(*step)
    for key, value in bonus.networks.state_dict().items():
        assert torch.equal(value, states[0][key]) == key.startswith("target")


def test_inverse_dynamics_predict_actions() -> None:
    """The action is the difference of the observations, so it can be learned."""
    training = Training(every=64, steps=20, batch_size=64, memory=500)
    rng = np.random.default_rng(0)
    bonus = make_bonus("e3b", spaces.Discrete(12), ACTIONS, n_envs=N, dim=16, training=training)
    losses = []
    for _ in range(160):
        obs = rng.integers(0, 9, N)
        actions = rng.integers(1, 4, N)
        bonus.observe(obs, actions, obs + actions - 1, np.zeros(N, bool))
        losses.append(bonus._loss(bonus.memory.all()).item())
    assert losses[0] > 1
    assert losses[-1] < 0.1


def test_inverse_dynamics_predict_continuous_actions() -> None:
    box = spaces.Box(-1, 1, (2,))
    bonus = make("e3b", "vector", action_space=box)
    for step in transitions("vector", 3, actions=box):
        bonus.observe(*step)
    data, network = bonus.memory.all(), bonus.inverse
    with torch.no_grad():
        phi = torch.cat([network(data.obs), network(data.next_obs)], 1)
        predicted = network.action(network.between(phi).relu()).numpy()
    assert bonus._loss(data).item() == pytest.approx(((predicted - data.actions) ** 2).mean())


# Snapshots and rebuilt matrices


@pytest.mark.parametrize("name", ["contrastive", "e3b"])
def test_sigma_is_rebuilt_from_the_reservoir_after_training(name: str) -> None:
    training = Training(every=3 * N, steps=2, batch_size=8, memory=10)
    more = {"snapshot_every": 2} if name == "contrastive" else {}
    bonus = make(name, training=training, scope="product", ridge=0.5, **more)
    network = bonus.snapshot.psi if name == "contrastive" else bonus.inverse
    rebuilt_at = (6, 12) if name == "contrastive" else (3, 6, 9, 12)
    for count, (obs, actions, next_obs, dones) in enumerate(transitions("grid", 12), start=1):
        before = bonus.ellipse.sigma[0].numpy().copy()
        features = np.array([one_row(network, next_obs, row) for row in range(N)])
        bonus.step(obs, actions, next_obs, dones)
        expected = before + features.T @ features
        if count in rebuilt_at:
            kept = bonus.memory.all().next_obs[0]
            phi = np.array([one_row(network, kept, row) for row in range(len(kept))])
            expected = 0.5 * np.eye(5) + count * N / len(kept) * phi.T @ phi
        np.testing.assert_allclose(bonus.ellipse.sigma[0], expected, rtol=1e-3, atol=1e-3)
        assert bonus.ellipse.n_seen == pytest.approx(count * N)
        if name == "contrastive" and count in rebuilt_at:
            for value, current in zip(
                bonus.snapshot.parameters(), bonus.features_network.parameters(), strict=True
            ):
                assert torch.equal(value, current)
            np.testing.assert_array_equal(bonus.episodes.inverse, [10 * np.eye(5)] * N)


def test_features_change_with_snapshots_only() -> None:
    training = Training(every=3 * N, steps=2, batch_size=8, memory=10)
    bonus = make("contrastive", training=training, snapshot_every=2)
    changed, (obs, _, _, _) = [], next(transitions("grid", 1, seed=2))
    previous = bonus.snapshot.psi((obs,))
    for count, step in enumerate(transitions("grid", 12), start=1):
        bonus.step(*step)
        current = bonus.snapshot.psi((obs,))
        if not torch.equal(current, previous):
            changed.append(count)
        previous = current
    assert changed == [6, 12]


def test_elliptical_rebuild_scales_to_the_number_of_visits() -> None:
    bonus = make("elliptical")
    steps = list(transitions("grid", 3))
    for step in steps:
        bonus.step(*step)
    obs, actions, next_obs, _ = steps[0]
    bonus.rebuild(obs, actions, next_obs)
    phi = np.array([one_row(bonus.encoder, next_obs, row) for row in range(N)])
    expected = np.eye(5) + 3 * phi.T @ phi
    np.testing.assert_allclose(bonus.ellipse.sigma[0], expected, atol=1e-5)


# Fixed features


def test_products_of_fourier_features_approximate_the_gaussian_kernel() -> None:
    leaves = ObservationArrays(spaces.Box(-1, 1, (2,))).leaves
    features = FixedFeatures(leaves, 20_000, stream(0, "test"), length_scale=0.4)
    x = np.random.default_rng(0).uniform(-1, 1, (6, 2)).astype(np.float32)
    phi = features((x,)).numpy()
    expected = [[np.exp(-((a - b) ** 2).sum() / (2 * 0.4**2)) for b in x] for a in x]
    np.testing.assert_allclose(phi @ phi.T, expected, atol=0.05)


def test_random_features_have_unit_length_and_the_requested_size() -> None:
    for space in ("grid", "binary", "image", "dict", "tuple"):
        bonus = make("elliptical", space, training=NEVER)
        obs, *_ = next(transitions(space, 1))
        phi = bonus.encoder(bonus.arrays(obs))
        assert phi.shape == (N, 5)
        np.testing.assert_allclose(phi.norm(dim=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["rnd", "elliptical"])
def test_random_networks_tell_one_hot_cells_apart(name: str) -> None:
    cells = np.eye(100, dtype=bool).reshape(100, 1, 10, 10)
    bonus = make_bonus(name, spaces.Box(0, 1, (1, 10, 10), np.bool_), ACTIONS)
    network = bonus.networks.target if name == "rnd" else bonus.encoder
    features = torch.nn.functional.normalize(network((cells,)), dim=1)
    cosines = (features @ features.T)[~np.eye(100, dtype=bool)]
    assert cosines.mean() < 0.7
