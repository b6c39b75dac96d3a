"""What the page of the demo says in words, wherever the words do not depend on the runs."""

from __future__ import annotations

INTRO = (
    "An agent walks through a world in steps: it sees a state, takes an action, earns a reward and"
    " lands in a next state that is drawn at random. Such a world is a Markov decision process, or"
    " MDP. Here every walk has the same number of steps, H, and V* is the most that any policy"
    " earns on average in one walk.",
    "An MDP has low rank when the chance of a next state is a product of two short vectors,"
    " P(s' | s, a) = φ(s, a) · ψ(s'), with d numbers each. There may be many states, but d numbers"
    " then say all that a state and an action mean for what comes next. Nobody tells the agent"
    " φ or ψ.",
    "Contrastive UCB learns both from a guessing game: it is shown a state, an action and a next"
    " state, and has to say whether the next state really followed or was drawn from a fixed"
    " distribution P⁻. Whoever plays this game as well as possible knows how much likelier than"
    " under P⁻ each next state is, and therefore knows the model. The learnt φ also shows what is"
    " still unknown: directions that the data hardly cover get a bonus, the agent plans as if the"
    " bonus were reward, goes there, and the bonus shrinks.",
    "The lock is a world in which this matters. In a good state one action keeps the agent among"
    " the good states, and every other action leads to dead states for ever; only the right action"
    " at the last step pays 1, while a wrong action pays a small bribe half of the time. With A"
    " actions, a walk of guesses opens the lock with probability 1 / A to the power H, and until"
    " that has happened the bribe is all the reward there is to learn from.",
    "In a zero-sum Markov game two players act at the same time, and what one wins the other loses:"
    " the row player wants much reward, the column player little. A pair of policies is a Nash"
    " equilibrium when neither player would gain by changing their own policy alone. Such policies"
    " often draw their actions at random, so that nobody can prepare for them, and all equilibria"
    " of a zero-sum game are worth the same.",
    "The exploitability of a pair, or duality gap, says how far it is from an equilibrium: it is"
    " what the row player would gain with the best reply to the other's policy, plus what the"
    " column player would gain likewise. It is zero for an equilibrium and for nothing else, but"
    " only those who know the game can compute it. Contrastive ULCB, the algorithm for games, keeps"
    " two values instead, one with the bonus added and one with it taken away. Their distance is"
    " its certificate: an upper bound on the exploitability, as far as the bonus is large enough,"
    " that needs nothing but the agent's own data.",
    "Two values mean two tables of payoffs, one a player, and so the game that the agent plans in"
    " is no longer zero-sum. It takes a coarse correlated equilibrium of it: a joint play, the"
    " actions drawn together, from which no player would gain by deciding for an own action before"
    " the draw. There always is one, and linear programming finds it. Each player then keeps"
    " their own part of the joint play.",
)

PEERS = {
    "contrastive-ucb": "Algorithm 1 of the paper, which this page is about.",
    "rep-ucb": "like contrastive-ucb, with features learnt by maximum likelihood.",
    "lsvi-ucb": "is given the true φ, which contrastive-ucb has to learn.",
    "ucbvi": "uses no features: it counts transitions, and its bonus shrinks with the visits.",
    "no-bonus": "learns a model as contrastive-ucb (in games contrastive-ulcb) does and trusts it:"
    " there is no bonus.",
    "epsilon-greedy": "like no-bonus, with one action in ten at random while it gathers data.",
    "uniform": "gathers data with random actions only, and plans without a bonus.",
    "contrastive-ulcb": "Algorithm 2 of the paper, contrastive-ucb for zero-sum games.",
    "rep-ulcb": "like contrastive-ulcb, with features learnt by maximum likelihood.",
    "omni-vi": "is given the true φ of the game, which contrastive-ulcb has to learn.",
    "midpoint-nash": "like contrastive-ulcb, but plays the Nash equilibrium of the mean of both"
    " payoff tables instead of a coarse correlated equilibrium.",
    "tight-cce": "like contrastive-ulcb, but takes the coarse correlated equilibrium with the"
    " smallest distance between the two values, where contrastive-ulcb takes any.",
    "spr-ucb": "a deep agent with the bonus, here as in Algorithm 1: it takes φ from its own"
    " network, adds up φ φ' of all that it has visited, and acts on value plus bonus.",
    "spr": "the deep agent without the bonus. It explores with noise in its network, after some"
    " random actions at the very beginning.",
}

NOTES = (
    "A round is not one walk: the algorithm walks H times a round, once for every step at which it"
    " gathers data. Multiply rounds by H to compare with methods that count episodes; the tables"
    " have both.",
    "Unless a run was told otherwise, the agents know the reward of the low-rank MDP and game and"
    " learn only the transitions, as in the paper. In the lock and the vault the known reward would"
    " give the combination away, so there they learn the reward too.",
    "All agents but the deep ones gather data alike: a walk ends with two random actions (with one,"
    " if the MDP ends first), which already explores one step ahead. On easy MDPs this may be"
    " enough, and uniform and no-bonus do well. The lock is here because it is not easy.",
    "What was never tried is predicted to lead where P⁻ leads, that is, anywhere. This is a mild"
    " optimism of its own, which agents without a bonus enjoy as well. lsvi-ucb and the"
    " deep agents, which fit values to their features, do without it.",
    "The model error of each agent is measured where its own data lie, as in the theorem. An agent"
    " that stays in one corner can have a small error and know little of the rest.",
    "Gap, regret and model error are exact sums over the true MDP or game, not estimates from"
    " sample walks.",
    "In games an agent recommends the pair of the round with the smallest certificate, since the"
    " true gap is not known to it. Without a bonus both values are equal from the first round on:"
    " their distance is zero and vouches for nothing, so the tables have a dash for no-bonus and"
    " uniform, and their pair is that of the last round."
    " The bracket, V-lower ≤ V of an equilibrium ≤ V-upper, fails for them as soon as the model"
    " is wrong by anything.",
    "The bonus on this page is smaller than the theorem asks for, whose constants would take far"
    " more rounds. The tables say how often the bracket held all the same; that is a measurement,"
    " not a proof.",
    "The deep agents have no rounds and plan in no model: they learn values from dives that they"
    " remember, and the theorem does not cover them. A dive is one walk, so dives compare with"
    " trajectories, not with rounds. The few seeds of the demo are a glance, not a measurement.",
)
