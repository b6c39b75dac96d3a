"""The elliptical bonus in a Q-learning agent that acts and bootstraps greedily on Q + bonus."""

import sys

import numpy as np
import torch
from torch import Tensor, nn

import contrastive_ucb as cu

SIZE, EPISODES, BATCH, EPSILON = 10, 150, 32, 0.05
CELLS = torch.eye((SIZE + 1) * SIZE)  # one-hot (row, column); the last row is terminal
Transition = tuple[int, int, float, int, bool]  # cell, action, reward, next cell, terminated


class Agent:
    def __init__(self, scale: float, seed: int):
        torch.manual_seed(seed)
        self.random = np.random.default_rng(seed)
        self.q = nn.Sequential(nn.Linear(len(CELLS), 64), nn.ReLU(), nn.Linear(64, 2))
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=3e-3)
        self.bonus = cu.EllipticalBonus(len(CELLS), scale, ridge=0.1, blocks=2)  # one per action
        self.memory: list[Transition] = []

    @torch.no_grad()
    def optimistic(self, cells: int | Tensor) -> Tensor:
        return self.q(CELLS[cells]) + self.bonus.of_all(CELLS[cells])

    def act(self, cell: int) -> int:
        if self.random.random() < EPSILON:
            return int(self.random.integers(2))
        return int(self.optimistic(cell).argmax())

    def learn(self, transition: Transition) -> None:
        self.memory.append(transition)
        self.bonus.observe(CELLS[transition[0]], torch.tensor(transition[1]))
        batch = [self.memory[i] for i in self.random.integers(len(self.memory), size=BATCH)]
        cell, action, reward, next_cell, terminated = map(torch.tensor, zip(*batch, strict=True))
        target = reward + ~terminated * self.optimistic(next_cell).max(1).values
        predicted = self.q(CELLS[cell]).gather(1, action[:, None])[:, 0]
        self.optimizer.zero_grad()
        nn.functional.mse_loss(predicted, target).backward()
        self.optimizer.step()


def episode(env: cu.DeepSea, agent: Agent) -> bool:
    """Play one episode and return whether it reached the treasure."""
    (row, column), terminated, reward = env.reset()[0], False, 0.0
    while not terminated:
        cell = int(row * SIZE + column)
        action = agent.act(cell)
        (row, column), reward, terminated, _, _ = env.step(action)
        agent.learn((cell, action, reward, int(row * SIZE + column), terminated))
    return reward > 0.5


for scale in [0.0] if "--no-bonus" in sys.argv else [0.1, 0.0]:
    env, agent = cu.DeepSea(size=SIZE, seed=0), Agent(scale, seed=0)
    reached = [episode(env, agent) for _ in range(EPISODES)]
    print(f"scale {scale}: the treasure in {sum(reached[-50:])} of the last 50 episodes")
