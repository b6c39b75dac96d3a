"""SPR-UCB, the deep agent of the package, in DeepSea with and without a bonus."""

import sys

import contrastive_ucb as cu

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_500

for bonus in ("algorithm-1", "none"):
    agent = cu.SPRUCB("DeepSea-10", seed=0, bonus=bonus)
    agent.learn(steps=STEPS, progress=False)
    score = cu.evaluate(agent, episodes=5)["mean"]
    print(f"bonus {bonus}: return {score:.2f} of 1 without the bonus, after {STEPS} steps")
