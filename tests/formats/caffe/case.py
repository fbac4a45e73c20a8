"""What cases of layers are made of: a network, its weights, what it is fed, and what Caffe computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tests.formats.caffe.networks import Blobs, layer, net
from tests.support import normal, positive

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One network.

    Attributes:
        text: Its description, with the input ``x``.
        expected: From the input to what Caffe gives for ``y``.
        weights: By layer.
        x: The input.
    """

    text: str
    expected: Callable[[Array], Array]
    weights: Mapping[str, Blobs] = field(default_factory=dict)
    x: Array = field(default_factory=lambda: normal(2, 3, 6, 7, seed=5))


W, B = normal(4, 3, 3, 3, seed=1), normal(4, seed=2)
CHANNELS = normal(3, seed=3)
MEAN, VARIANCE = normal(3, seed=6), positive(3, seed=7)


def one(kind: str, parameters: str, expected: Callable[[Array], Array], *blobs: Any, **options: Any) -> Case:
    """A network of one layer."""
    x = options.get("x", normal(2, 3, 6, 7, seed=5))
    text = net(layer(kind, parameters), *x.shape)
    return Case(text, expected, {kind.lower(): blobs} if blobs else {}, **options)


TWICE = layer("Power", "power_param { scale: -2 }", tops="b")
THRICE = TWICE + layer("Power", "power_param { scale: 3 }", tops="c", name="third")


def several(
    text: str, parameters: str, kind: str, bottoms: str, expected: Callable[[Array], Array], **options: Any
) -> Case:
    return Case(net(text + layer(kind, parameters, bottoms)), expected, **options)
