"""Unrolled training with TorchOpt: python run_torchopt.py FOLDER, in an environment of its own.

Each outer step refits by K differentiable steps of gradient descent with momentum (`torchopt.MetaSGD`) from the last
refit, and lets PyTorch walk back through all of them, which is what the library is for. The step length is the
textbook's 1/L, from the data's largest singular value (the Hessian of softmax regression is at most ½XᵀX/n), so that
no tuning by hand is needed. float64, as everybody else.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
import torchopt
from descent import descend
from moving import Task

UNROLLED, MOMENTUM = 100, 0.9


class Regression(torch.nn.Module):
    """Softmax regression with a free intercept."""

    def __init__(self, width, classes):
        """Start from zero."""
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(classes, width))
        self.intercepts = torch.nn.Parameter(torch.zeros(classes))

    def forward(self, rows):
        """Return the classes' outputs."""
        return rows @ self.weights.T + self.intercepts


def main(folder):
    torch.set_default_dtype(torch.float64)
    task = Task(folder, "torch", "torchopt")
    features, labels, query = (torch.from_numpy(values) for values in (task.features, task.labels, task.query))
    model = Regression(features.shape[1], task.classes)
    rows = np.column_stack([task.features, np.ones(len(task.features))])
    rate = 1.0 / (0.5 * np.linalg.norm(rows.T @ rows / len(rows), 2) + task.l2)

    def risk(moved):
        return torch.nn.functional.cross_entropy(model(moved), labels) + 0.5 * task.l2 * model.weights.square().sum()

    def evaluate(moves):
        moves = moves.detach().requires_grad_(True)
        optimiser = torchopt.MetaSGD(model, lr=rate, momentum=MOMENTUM, nesterov=True)
        moved = features + moves
        for _ in range(UNROLLED):
            optimiser.step(risk(moved))
        task.passes += 2 * UNROLLED  # there and back
        loss = torch.nn.functional.cross_entropy(model(query[None]), torch.tensor([task.goal]))
        (gradient,) = torch.autograd.grad(loss, moves)
        torchopt.stop_gradient(model)  # the next refit starts where this one ended, but remembers none of it
        return loss.detach(), gradient

    def step(moves, gradient, length):
        norms = gradient.norm(dim=1, keepdim=True)
        moves = moves.detach() - length * gradient / torch.where(norms > 0, norms, 1.0)
        return moves / torch.clamp(moves.norm(dim=1, keepdim=True) / task.budget, min=1.0)

    def probe(threads):
        torch.set_num_threads(threads)
        evaluate(stay)
        model.load_state_dict(cold)

    stay, cold = torch.zeros_like(features), Regression(features.shape[1], task.classes).state_dict()
    torch.set_num_threads(task.fastest((torch.get_num_threads(), 1), probe))
    descend(task, evaluate, step, stay, lambda moves: moves.detach().numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
