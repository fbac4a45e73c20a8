"""What networks for Paddle are made of; runs inside the environment of Paddle alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import paddle
from paddle import nn


@dataclass(frozen=True)
class Case:
    """A function of tensors, or one that makes a layer.

    Attributes:
        function: The function.
        inputs: What it is tried with.
        open: Shapes with which it is exported, ``None`` for open sizes; for each input, if they are not its own.
        is_layer: The function makes a layer.
    """

    function: Callable
    inputs: Sequence[np.ndarray]
    open: Sequence[Sequence[int | None] | None] = ()
    is_layer: bool = False


def layer(make, inputs, open_sizes=()):
    return Case(make, inputs, open_sizes, is_layer=True)


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def pos(*shape, seed=0):
    return np.abs(f32(*shape, seed=seed)) + np.float32(0.1)


def i64(high, *shape, seed=0, lo=0):
    return np.random.default_rng(seed).integers(lo, high, shape).astype(np.int64)


def i32(high, *shape, seed=0, lo=0):
    return i64(high, *shape, seed=seed, lo=lo).astype(np.int32)


def boo(*shape, seed=0):
    return np.random.default_rng(seed).random(shape) > 0.5


def by_name(name, module=None):
    """A function of Paddle by its name, looked up when it is called."""

    def call(*tensors):
        return getattr(module or paddle, name)(*tensors)

    return call


class Net(nn.Layer):
    """Layers one after another, or joined by a function of the list of layers and the inputs."""

    def __init__(self, *layers, f=None):
        super().__init__()
        self.parts = nn.LayerList(layers)
        self.f = f

    def forward(self, x0, x1=None, x2=None, x3=None):
        given = [x for x in (x0, x1, x2, x3) if x is not None]
        if self.f is not None:
            return self.f(self.parts, *given)
        for part in self.parts:
            x0 = part(x0)
        return x0


class Function(nn.Layer):
    """A function as a layer."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x0, x1=None, x2=None, x3=None):
        return self.f(*[x for x in (x0, x1, x2, x3) if x is not None])


X = f32(2, 3, 8, 8)
U = f32(3, 4) * 2
A, B = f32(3, 4), f32(3, 4, seed=1)
THREE, FOUR, TABLE, SERIES, PICTURE = f32(2, 3, 4), f32(2, 3, 4, 5), f32(5, 4), f32(2, 5, 6), f32(2, 4, 9, 8)
CORNERS = np.array([[[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 9, 9.5], [21, 20, 30, 31]]], np.float32)
SCORES = pos(1, 3, 5) / 3
