"""PPO in one file, in the manner of CleanRL, on MountainCar with the contrastive bonus."""

import sys

import gymnasium
import torch
from torch import nn

from contrastive_ucb.bonus import VectorBonusWrapper

N, T, UPDATES = 16, 128, int(sys.argv[1]) if len(sys.argv) > 1 else 50
torch.manual_seed(0)
envs = gymnasium.make_vec("MountainCar-v0", N, vector_kwargs={"autoreset_mode": "SameStep"})
envs = VectorBonusWrapper(envs, "contrastive", scale=20, scope="lifelong")
actor, critic = (nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, k)) for k in (3, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
x, goals, unit = torch.as_tensor(envs.reset(seed=0)[0]), 0, torch.tensor([1.0, 15.0])
for update in range(1, UPDATES + 1):
    steps = []
    for _ in range(T):
        action = torch.distributions.Categorical(logits=actor(x * unit)).sample()
        after, reward, terminated, truncated, _ = envs.step(action.numpy())  # with the bonus
        steps.append((x * unit, action, *map(torch.as_tensor, (reward, terminated | truncated))))
        x, goals = torch.as_tensor(after), goals + int(terminated.sum())
    inputs, actions, rewards, dones = map(torch.stack, zip(*steps, strict=True))
    old = torch.distributions.Categorical(logits=actor(inputs)).log_prob(actions).detach()
    values, gains = critic(torch.stack([*inputs, x * unit])).detach()[..., 0], torch.zeros(T + 1, N)
    for t in reversed(range(T)):
        error = rewards[t] + 0.99 * ~dones[t] * values[t + 1] - values[t]
        gains[t] = error + 0.99 * 0.95 * ~dones[t] * gains[t + 1]
    returns, gains = gains + values, (gains - gains[:T].mean()) / gains[:T].std()
    for rows in (part for _ in range(4) for part in torch.randperm(T * N).split(512)):
        at, policy = (rows // N, rows % N), actor(inputs[rows // N, rows % N]).log_softmax(1)
        ratio = (policy.gather(1, actions[at][:, None])[:, 0] - old[at]).exp()
        loss = -torch.minimum(ratio * gains[at], ratio.clamp(0.8, 1.2) * gains[at]).mean()
        loss += 0.5 * (critic(inputs[at])[:, 0] - returns[at]).square().mean()
        optimizer.zero_grad()
        (loss + 0.01 * (policy.exp() * policy).sum(1).mean()).backward()
        optimizer.step()
    print(f"{update * T * N} steps: the goal was reached {goals} times")
