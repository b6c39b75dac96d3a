"""Result: what `learn` returns, for all agents; and `learn` of finite and neural agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from contrastive_ucb.core.arrays import Array, IntArray
from contrastive_ucb.core.checks import check_number, check_size
from contrastive_ucb.core.errors import UserError
from contrastive_ucb.core.events import ProgressListener
from contrastive_ucb.core.random_streams import stream
from contrastive_ucb.core.runtime import threads
from contrastive_ucb.envs.observed import ObservedEnv
from contrastive_ucb.envs.tabular import TabularGame
from contrastive_ucb.runs.loop import follow
from contrastive_ucb.stats.slopes import within_from

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from contrastive_ucb.runs.session import Session

Callback = Callable[[Any], object]  # of an event; the return value False stops the run
PLOTTED = {
    "round": ("average_regret", "average_gap", "certificate", "zeta"),
    "step": ("charts/episodic_return", "bonus/mean"),
}


@dataclass(frozen=True, repr=False)
class Result:
    """The metrics of a call of `learn`.

    Rounds are logged on a grid: almost all at first, later 100 per decade. Sums and averages are
    over all rounds. Each metric is also an attribute, such as `result.average_regret`:

    | metric | meaning |
    |---|---|
    | `gap` | V* - V^pi of the greedy policy; in a game, the duality gap |
    | `regret` | the sum of the gaps so far (MDP) |
    | `average_regret` | the mean gap of all rounds so far (MDP) |
    | `average_gap` | the mean duality gap of all rounds so far (game) |
    | `certificate` | V-upper - V-lower (game) |
    | `zeta` | the model error: the largest over h, under the true rho~ |

    Args:
        steps: Logged rounds of finite and neural agents, or environment steps of deep agents, (n,).
        figures: Metric -> (n,) for one seed, (n, B) for B seeds; NaN: not measured at this step.
        summaries: One dictionary per seed.
        unit: "round" or "step".

    Examples:
        >>> import contrastive_ucb as cu
        >>> agent = cu.ContrastiveUCB(cu.Lock(horizon=2, n_actions=2), seed=0)
        >>> result = agent.learn(rounds=20, progress=False)
        >>> list(result.curves.columns[:3])
        ['seed', 'step', 'gap']
        >>> int(result.rounds[-1])
        20
        >>> figure = result.plot()
        >>> figure.savefig("curves.png")  # doctest: +SKIP
    """

    steps: IntArray
    figures: dict[str, Array]
    summaries: list[dict[str, Any]] = field(default_factory=list)
    unit: str = "round"

    @property
    def curves(self) -> pd.DataFrame:
        """One row per seed and logged step: `seed`, `step` and one column per metric."""
        import pandas as pd

        tables = []
        for at, summary in enumerate(self.summaries):
            columns = {name: self._rows(name)[:, at] for name in self.figures}
            tables.append(pd.DataFrame({"seed": summary["seed"], "step": self.steps, **columns}))
        return pd.concat(tables, ignore_index=True)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per seed. `summary[0]` is the first row as a dictionary."""
        import pandas as pd

        rows = self.summaries

        class SummaryTable(pd.DataFrame):  # type: ignore[misc]
            """A DataFrame with one row per seed; an integer key selects a row as a dictionary."""

            def __getitem__(self, key: Any) -> Any:
                return dict(rows[key]) if isinstance(key, int) else super().__getitem__(key)

        return SummaryTable(rows)

    @property
    def rounds(self) -> IntArray:
        """The logged steps."""
        return self.steps

    def __getattr__(self, name: str) -> Array:
        figures = self.__dict__.get("figures", {})
        if name not in figures:
            raise AttributeError(f"this run has no {name!r}; it has {', '.join(figures)}")
        figure: Array = figures[name]
        return figure

    def rounds_for(self, epsilon: float) -> Array:
        """Rounds after which a uniformly drawn policy is epsilon-optimal on average (l.227, l.293).

        The expected gap of the drawn policy is the mean gap of all rounds.

        Args:
            epsilon: The suboptimality, in games the duality gap.

        Returns:
            For each seed the first logged round from which on `average_regret`, in games
            `average_gap`, stays at most at epsilon; NaN if it ends above.

        Raises:
            UserError: epsilon is not positive, or this is a run of a deep agent.

        Examples:
            >>> import contrastive_ucb as cu
            >>> agent = cu.ContrastiveUCB(cu.Lock(horizon=2, n_actions=2), seed=0)
            >>> result = agent.learn(rounds=100, progress=False)
            >>> result.rounds_for(0.5) <= result.rounds_for(0.25)
            array([ True])
        """
        check_number("epsilon", epsilon, positive=True, finite=True)
        for name in ("average_regret", "average_gap"):
            if name in self.figures:
                return within_from(self.steps.astype(float), self._rows(name).T, epsilon)
        raise UserError("a deep agent has no average gap; rounds_for() is for finite environments")

    def _rows(self, name: str) -> Array:
        """The metric of all seeds   (n, B)"""
        return self.figures[name].reshape(len(self.steps), -1)

    def __repr__(self) -> str:
        values = []
        for name in ("gap", "zeta", "charts/episodic_return", "bonus/mean"):
            table = self.figures.get(name, np.empty(0))
            if measured := [row.mean() for row in table if np.isfinite(row).all()]:
                values.append(f"{name.removeprefix('charts/')} {measured[-1]:.4g}")
        count, last = len(self.summaries), self.steps[-1] if len(self.steps) else 0
        seeds = f"{count} seed{'s' * (count > 1)}"
        return f"Result({last} {self.unit}s, {seeds}: {', '.join(values) or 'nothing measured'})"

    def plot(self) -> Figure:
        """Plot the main metrics over rounds or steps, one curve per seed.

        Returns:
            A matplotlib figure; save it with `figure.savefig(path)`.
        """
        from matplotlib.figure import Figure

        names = [name for name in PLOTTED[self.unit] if name in self.figures]
        figure = Figure(figsize=(4.5 * max(1, len(names)), 3.5), layout="constrained")
        if not names:
            return figure
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            table = self._rows(name)
            measured = np.isfinite(table).all(-1)
            if self.unit == "round":
                axes.loglog(self.steps[measured], np.maximum(table[measured], 1e-12))
            else:
                axes.plot(self.steps[measured], table[measured])
            title = name.rpartition("/")[2] if name.startswith("charts/") else name
            axes.set(xlabel=self.unit, ylabel=title.replace("_", " ").replace("/", " "))
        return figure


def learn(
    session: Session, rounds: int, progress: bool = True, callback: Callback | None = None
) -> Result:
    """Run `rounds` more rounds and return the metrics of those on the grid.

    callback  called with every round (`event.step`, `event.values`); stops by returning False
    """
    check_size("rounds", rounds)
    agent = session.agent
    if session.is_over:
        raise UserError(f"{agent.envs[0].name} is solved, so there is nothing left to learn")
    until = agent.n_rounds + rounds
    logged: list[Any] = []

    def collect(event: Any) -> None:
        if event.on_grid:
            logged.append(event)

    bar = ProgressListener(until, agent.algo, agent.n_rounds) if progress else None
    observers = [collect, callback] if callback else [collect]
    with threads(1):
        follow(session.rounds(until), observers, bar=bar)
    summaries = [session.summary(seed) for seed in range(len(agent.seeds))]
    return result_of(logged, summaries, "round")


def result_of(events: Sequence[Any], summaries: list[dict[str, Any]], unit: str) -> Result:
    """The result of these rounds, or of these events of a deep agent."""
    rows = [event.figures if unit == "round" else event.values for event in events]
    names = dict.fromkeys(name for row in rows for name in row)  # in order, each once
    count = len(summaries)
    unmeasured = np.full(count, np.nan)
    figures = {}
    for name in names:
        table = np.stack([np.broadcast_to(row.get(name, unmeasured), count) for row in rows])
        figures[name] = table[:, 0] if count == 1 else table
    return Result(np.array([event.step for event in events]), figures, summaries, unit)


def evaluate_finite(agent: Any, episodes: int = 20) -> dict[str, Any]:
    """Returns of episodes with `agent.predict`: mean, median, their number and the scores.

    In a game the score is the return of the row player. Rewards are those of the environment,
    before a GymObserved maps them to [0, 1].
    The episodes are the same in every call, except for the draws of mixed policies.
    """
    from contrastive_ucb.evaluation.rollouts import digest

    check_size("episodes", episodes)
    if len(agent.seeds) > 1:
        raise UserError(f"evaluate() needs an agent with one seed, got {len(agent.seeds)} seeds")
    env, random = agent.envs[0], stream(agent.seeds[0], "evaluate episodes")
    play = _play_observed if isinstance(env, ObservedEnv) else _play_table
    scores = play(agent, env, episodes, random)
    return {**digest(scores), "scores": scores.tolist()}


def _play_observed(agent: Any, env: Any, episodes: int, random: np.random.Generator) -> Array:
    walk, scores, state = env.begin(episodes, random), np.zeros(episodes), None
    for _ in range(env.horizon):
        actions, state = agent.predict(walk.observations, state)
        if isinstance(actions, tuple):  # one per player: the index of the joint action
            actions = np.ravel_multi_index(actions, env.action_shape)
        scores += walk.move(actions - env.first_action, random)
    return np.asarray(env.raw_returns(scores))


def _play_table(agent: Any, env: Any, episodes: int, random: np.random.Generator) -> Array:
    env, scores = deepcopy(env), np.zeros(episodes)
    is_game = isinstance(env, TabularGame)
    for episode in range(episodes):
        seen, _ = env.reset(seed=int(random.integers(2**31)))
        for _ in range(env.horizon):
            action, _ = agent.predict(seen["row"] if is_game else seen)
            chosen = dict(zip(("row", "column"), action, strict=True)) if is_game else action
            seen, reward, *_ = env.step(chosen)
            scores[episode] += reward["row"] if is_game else reward
    return scores
