"""The words of docs/theory.md, with places for what was measured: {F1 zeta}, {F8 form|note}.

No number that was measured stands here.
"""

from __future__ import annotations

BEFORE = """
The paper proves rates and inequalities and shows none of them. Here each is a fact with a
setting, a mark and a measured value, all in `src/contrastive_ucb/facts/facts.toml`. The marks
are the theorems' and were fixed before the runs; alpha is from pilots; rows that were added
later say so. A row that misses its mark stays in the table. Required is what the paper states,
as its errata correct it or carried over to the class that is fitted here (F1, F15), and the
exploration that the bonus is there for (F7); `cucb verify` exits with an error if a required
row does not hold.

```
cucb verify --quick
cucb verify F7 --seeds 10 --json
cucb verify --out results/theory
```

The first is a minute of small sizes, the second one fact, the third everything on this page.

A killed command goes on where it stopped, a second one gives the same table. Slopes are
least-squares fits of log y on log k over the rounds K/30 to K, of the mean curve over seeds;
intervals are 95% percentile bootstraps over seeds, for counts of seeds Wilson's. Seconds are
processor time of one thread.

Keep in mind when reading:

- The reward is known, except on the lock, where it is learnt because knowing it gives the
  answer away.
- A round is H trajectories, one for each step (erratum E9). The paper calls it an episode.
- Two uniform actions end every trajectory (one, for h = H), so one step ahead is covered
  without any bonus. Random low-rank MDPs are small and mix fast: uniform and no-bonus are
  strong there. The lock is where they are not.
- A pair that was never visited is predicted by P^-, which is a mild optimism of its own.
- zeta and xi are exact: true rho, L1 norm squared, the largest over h.
"""

FACTS: dict[str, tuple[str, str]] = {
    "F1": (
        "the model error falls like 1/k",
        """
The slopes are {F1 zeta} for zeta and {F1 xi} for xi. The lemma bounds both by log(k)/k, so it
would allow a little flatter than -1. It is for a finite class; the class here is all positive
factors of rank d, fitted by a few multiplicative sweeps a round, which nothing guarantees. With
exact negatives the slope is {F1 zeta, exact negatives}.
""",
    ),
    "F2": (
        "the average regret falls like 1/sqrt(K)",
        """
The theorem's rate is an upper bound for the hardest MDP. On these the regret falls faster, {F2
contrastive-ucb}, and so it does without any bonus ({F2 no-bonus}) and with uniform roll-ins
({F2 uniform}), about which nothing is proved. This fact therefore says that the algorithm does
not fall behind its guarantee. It does not say that the guarantee needs the bonus; F7 does.
""",
    ),
    "F3": (
        "near-optimism",
        """
As printed, the bias is sqrt(A zeta_1); the proof has a factor H more (erratum E5), which is
what was checked. It held in {F3 practical|bare} of all rounds with the practical constants and
in {F3 theory|bare} with the theorem's. Neither says much. With the practical constants the
allowance is so large that V-bar = 0 would do in all but {F3 practical, where it says
something|bare} of the rounds. With the theorem's every bonus is at its cap 2H, so V-bar is near
2H^2 whatever the data say. The row that does say something is one that the paper does not
claim: without any allowance, V-bar_1 >= V* held in {F3 practical, without the bias|bare} of the
rounds.
""",
    ),
    "F4": (
        "the bound on the model error, with a finite class",
        """
The class is the definition to the letter: four features times four measures, the true ones
among them, all sixteen products tried in every round. zeta was never above {F4 zeta} and xi
never above {F4 xi}. That sounds strong and is not: with S = 10 the bound is above 4, the
largest value zeta can have, in all of the run. The tiny MDP (S = A = H = d = 2) is there
because its bound falls below 4 within the run; there the largest ratio was {F4 zeta, tiny} for
zeta and {F4 xi, tiny} for xi. So the bound holds and is loose by orders of magnitude.
""",
    ),
    "F5": (
        "the elliptical potential",
        """
With the true features, G_k = E[phi phi'] under pi^k and lambda = 1, the left side of the first
inequality was at most {F5 lambda = 1}. As printed, the lemma asks for lambda > 0 only. It rests
on x <= 2 log(1 + x), which ends at x = 2.51, and one G = 1 on lambda = .1 already breaks it:
{F5 lambda = .1, as printed} (erratum E16). Its last inequality has lost a factor 2 and has d on
the wrong side of a fraction (E17): in these runs its left side was {F5 last inequality, as
printed}; in the corrected form {F5 last inequality, corrected}. The second is a constant in the
proof, the first a condition on lambda which the theorem's lambda_k meets; neither changes the
rate.
""",
    ),
    "F6": (
        "the printed covariance does not explore",
        """
Line 9 of Algorithm 1 prints Sigma as an average while lambda_k is that of a sum (erratum E1).
With the theorem's constants every bonus is then at its cap, the same for all pairs: the largest
less the smallest was {F6 printed|bare} in all rounds, and with the same visits continued to
10^12 rounds it is {F6 printed, far ahead|bare}. A constant bonus explores nothing. Within the
run the plain sum of the analysis does no better (largest less smallest {F6 corrected, within
the run|bare}): with the theorem's constants it comes below the cap after about {F6
corrected|bare} rounds, extrapolated from the visits of this run. That is why there is a
practical schedule. There the mean bonus at K is {F6 practical, plain sum|bare} with the plain
sum and {F6 practical, printed|bare} as printed, where it does not shrink (the figure). On the
lock, with the same practical constants, the printed form opened {F6 lock, printed|value} {F6
lock, printed|note}, and the plain sum {F6 lock, corrected|value} {F6 lock, corrected|note}.
""",
    ),
    "F7": (
        "the lock needs the bonus",
        """
One action in five keeps the lock open at each of six steps, and small rewards lead astray. With
exact negatives Contrastive UCB opened it in {F7 contrastive-ucb, exact|value} seeds ({F7
contrastive-ucb, exact|note}); with the paper's sampler in {F7 contrastive-ucb, sampled|value}
({F7 contrastive-ucb, sampled|note}). The same loop without a bonus, with one uniform action in
ten, or with uniform roll-ins, opened it in {F7 no-bonus, sampled|value}, {F7 epsilon-greedy,
sampled|value} and {F7 uniform, sampled|value} seeds. The dead state shows itself as one of
twenty observations; with a single one, in a pilot, the default prediction of unvisited pairs
was exploration enough.
""",
    ),
    "F8": (
        "polynomial in the horizon",
        """
A power law through H = 3 to 12 has the exponent {F8 exponent|bare}, far below the theorem's 6
({F8 exponent|note}). That it is a power law is not shown. The misfit of a power of H is {F8
form|bare} times that of an exponential for H = 3 to 12 ({F8 form|note}), and {F8 form, longer
locks|bare} times for H = 6 to 20 ({F8 form, longer locks|note}). A floor near two hundred
rounds is visible at H = 3 to 5, for which neither form has room; with a constant, a square and
an exponential fit about equally well. So these lengths do not decide, and the exponent grows
with H. A round is H trajectories, so in trajectories the exponent is larger by one.
""",
    ),
    "F9": (
        "the price of not knowing the features",
        """
LSVI-UCB in the same loop is given the true features. The average regret of Contrastive UCB is
{F9 sampled} with the paper's sampler and {F9 exact} with exact negatives. Half of the sampled
tuples are negatives that carry no information about the next state, and each positive is used
once; that is most of the difference.
""",
    ),
    "F10": (
        "the contrastive loss against maximum likelihood",
        """
Three models are fitted on the tuples of one agent. Maximum likelihood and exact negatives use
every next state, the paper's sampler only those with label 1, which are half. At K the error of
the contrastive fit with sampled negatives is larger than that of maximum likelihood ({F10
sampled|note}), with exact negatives hardly ({F10 exact|note}). If the contrastive loss only
cost a constant, the ratio would be flat: over the window its slopes are {F10 sampled} and {F10
exact}. Before it, the ratio with sampled negatives rises (the figure).
""",
    ),
    "F11": (
        "games: the average duality gap falls like 1/sqrt(K)",
        """
The slopes are {F11 2x2} with two actions each and {F11 3x3} with three: flatter than the mark,
which both intervals contain. The theorem's rate is sqrt(log(K) / K), which is itself flatter
than -1/2 at any K, but the mark is the one without the logarithm. In runs of 20,000 rounds,
which were added after this, the slopes are {F11 2x2, four times as long} and {F11 3x3, four
times as long}. The gap of a round is that of the marginals of its CCE, computed exactly.
""",
    ),
    "F12": (
        "games: V-lower and V-upper enclose the value",
        """
The bracket held in {F12 2x2} (2x2) and {F12 3x3} (3x3) of all rounds, without any allowance for
the bias or for iota. It depends on alpha = .7, which was chosen in pilots so that it would. The
figure shows how far the bounds are from the value: they are careful,
by more than the gap itself.
""",
    ),
    "F13": (
        "games: the CCE is one",
        """
The largest gain from leaving the CCE, over all states, steps, rounds and seeds, was {F13 2x2}
and {F13 3x3}. The solver stops at the first answer within iota_k = .1 / sqrt(k), so values near
1 are what one should see; an answer above it would have been an error.
""",
    ),
    "F14": (
        "the wrong rank, and a tilted P^-",
        """
In order were {F14 rank|value} {F14 rank|note}. For P^- it is {F14 P^-|value} {F14 P^-|note}.
The lemma is an upper bound, so it orders bounds, not errors, and below the true rank it does
not apply at all; this is how far the errors follow.
""",
    ),
    "F15": (
        "growth in d, A and 1/C_S^-",
        """
The exponents are {F15 d|bare} in d, {F15 A|bare} in A and {F15 1/C_S^-|bare} in 1/C_S^-; the
marks are the growth of the lemma's bound over the same values, with the number of parameters in
the place of log|F|, for which the paper leaves covering numbers to later work (l.212). The
dependence on C_S^- is milder than the square of the lemma, but it steepens with the tilt (the
figure). In A the error grows a little faster than the bound does, by less than the interval is
wide: A enters the bound only through the number of parameters. The bound itself is far above
the error (F4).
""",
    ),
    "F16": (
        "the rich lock",
        """
This command runs no networks: `benchmarks/neural_results.py` does, and
[neural.md](neural.md) says how. A mark of H that is missing here was not run. What it found so
far:

{neural}
""",
    ),
}

TABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Ablations on the low-rank MDP",
        """
One thing changed at a time, 3,000 rounds. These MDPs are easy (F2), so the regret mostly shows
what careful exploration costs: it grows with alpha, and the theorem's schedule, whose bonus is
the same everywhere, is among the best. The printed covariance, whose bonus does not shrink, is
among the worst. Exact negatives are worth more than any of these choices. A rank too small
costs more than one too large.
""",
        ("schedule, covariance, negatives, clip", "alpha", "rank", "P^-"),
    ),
    (
        "Ablations on the lock",
        """
The same where exploration decides: seeds that opened the lock within 800 rounds, with exact
negatives. The theorem's schedule and the printed covariance never open it, each alone. Too
large a bonus is as bad as none within this budget. A tilted P^- opens it sooner, although it
makes the model worse (F14): unvisited pairs look like P^-, so its tilt is a prior.
""",
        ("lock: schedule, covariance, negatives, clip", "lock: alpha", "lock: rank", "lock: P^-"),
    ),
    (
        "The equilibrium in games",
        """
Any CCE (the paper's line 15), the Nash equilibrium of the midpoint (Q-upper + Q-lower) / 2,
which is no CCE, and the CCE with the narrowest bracket. The midpoint has about half the gap of
any CCE after these few rounds, though nothing is proved of it; the narrowest bracket gains
little.
""",
        ("equilibrium of line 15",),
    ),
    (
        "Peers",
        """
The same loop, sampler, seeds and budget with another model (see [switches.md](switches.md)),
10,000 rounds, all with alpha = .3, which was not tuned for each. Seconds are processor time of
one thread, for all seeds together and with the exact evaluation in them.
""",
        ("peers",),
    ),
)

AFTER = """
Generated by `python -m contrastive_ucb.report.theory_page` from `results/theory/facts.json`.
"""
