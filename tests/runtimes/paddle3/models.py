"""Whole networks like those that people convert; runs inside the environment of Paddle alone.

A text detector and a recognizer (convolutions, LSTM, CTC head), an encoder of text, a detector of objects with its boxes
chosen inside, networks of Paddle's own collection, and quantized networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812
from layers import suppress
from paddle import nn


@dataclass(frozen=True)
class Model:
    """A function that makes a network, the shapes with which it is exported, and what it is tried with."""

    make: Callable[[], nn.Layer]
    shapes: Mapping[str, list[int | None]]
    feed: Mapping[str, np.ndarray]


def normed(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2D(inputs, outputs, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(outputs), nn.Hardswish()
    )


class Recognizer(nn.Layer):
    """Convolutions that leave one row, a recurrent network along it, a softmax for each column."""

    def __init__(self, classes=37, hidden=48):
        super().__init__()
        pools = [nn.MaxPool2D(2, 2), nn.MaxPool2D((2, 1), (2, 1)), nn.MaxPool2D((4, 1), (4, 1))]
        self.features = nn.Sequential(
            *(normed(3, 16, 2), normed(16, 32), pools[0], normed(32, 48), pools[1], normed(48, 64), pools[2])
        )
        self.sequence = nn.LSTM(64, hidden, num_layers=2, direction="bidirectional")
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x):
        row = self.features(x).squeeze(axis=2).transpose([0, 2, 1])
        found, _ = self.sequence(row)
        return F.softmax(self.head(found), axis=2)


class Excitation(nn.Layer):
    """Channels weighed by what all of a picture says."""

    def __init__(self, channels):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.squeeze, self.excite = nn.Conv2D(channels, channels // 4, 1), nn.Conv2D(channels // 4, channels, 1)

    def forward(self, x):
        weight = self.excite(F.relu(self.squeeze(self.pool(x))))
        return x * F.hardsigmoid(weight, slope=0.2, offset=0.5)


class TextDetector(nn.Layer):
    """A pyramid whose levels are resized and joined, and transposed convolutions back to the size of the picture."""

    def __init__(self):
        super().__init__()
        channels = (8, 16, 24, 32, 48)
        self.stages = nn.LayerList([normed(i, o, 2) for i, o in zip((3, *channels), channels, strict=False)])
        self.inner = nn.LayerList([nn.Conv2D(c, 24, 1, bias_attr=False) for c in channels[1:]])
        self.weights = nn.LayerList([Excitation(24) for _ in range(4)])
        self.outer = nn.LayerList([nn.Conv2D(24, 6, 3, padding=1, bias_attr=False) for _ in range(4)])
        self.head = nn.LayerList([nn.Conv2D(24, 6, 3, padding=1, bias_attr=False), nn.BatchNorm2D(6)])
        self.up = nn.LayerList([nn.Conv2DTranspose(6, 6, 2, stride=2), nn.Conv2DTranspose(6, 1, 2, stride=2)])

    def forward(self, x):
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        inner = [self.inner[place](levels[place + 1]) for place in range(4)]
        inner = [inner[place] + self.weights[place](inner[place]) for place in range(4)]
        for place in (2, 1, 0):
            inner[place] = inner[place] + F.upsample(inner[place + 1], scale_factor=2, mode="nearest", align_mode=1)
        parts = [self.outer[place](inner[place]) for place in range(4)]
        parts = [parts[0], *(F.upsample(parts[p], scale_factor=2**p, mode="nearest", align_mode=1) for p in (1, 2, 3))]
        y = F.relu(self.head[1](self.head[0](paddle.concat(parts[::-1], axis=1))))
        return F.sigmoid(self.up[1](F.relu(self.up[0](y))))


class Encoder(nn.Layer):
    """Words, positions and kinds of words as vectors, layers of attention behind a mask, a class for the whole text."""

    def __init__(self, words=500, width=64, layers=3, heads=4):
        super().__init__()
        self.words, self.places, self.kinds = (nn.Embedding(count, width) for count in (words, 64, 2))
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", attn_dropout=0.1, act_dropout=0)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, input_ids, token_type_ids):
        mask = paddle.unsqueeze((input_ids == 0).astype("float32") * -1e4, axis=[1, 2])
        ones = paddle.ones_like(input_ids, dtype="int64")
        places = paddle.cumsum(ones, axis=-1) - ones
        vectors = self.words(input_ids) + self.places(places) + self.kinds(token_type_ids)
        found = self.encoder(self.drop(self.norm(vectors)), mask)
        return found, self.head(F.tanh(self.pool(found[:, 0])))


class Stage(nn.Layer):
    """Half of the channels go through another convolution."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.down, self.norm = nn.Conv2D(inputs, outputs, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(outputs)
        self.left, self.right = (nn.Conv2D(outputs, outputs // 2, 1) for _ in range(2))
        self.deep = nn.Conv2D(outputs // 2, outputs // 2, 3, padding=1)

    def forward(self, x):
        y = F.swish(self.norm(self.down(x)))
        right = self.right(y)
        return paddle.concat([self.left(y), right + F.swish(self.deep(right))], axis=1)


class Detector(nn.Layer):
    """Distances to the sides of boxes as distributions, from points of three grids; the best boxes of each class."""

    def __init__(self, classes=5, steps=8):
        super().__init__()
        self.classes, self.steps, channels = classes, steps, (24, 32, 48)
        self.stages = nn.LayerList([Stage(i, o) for i, o in ((3, 16), (16, 24), (24, 32), (32, 48))])
        self.weights = nn.LayerList([nn.Conv2D(c, c, 1) for c in channels])
        self.labels = nn.LayerList([nn.Conv2D(c, classes, 3, padding=1) for c in channels])
        self.sides = nn.LayerList([nn.Conv2D(c, 4 * (steps + 1), 3, padding=1) for c in channels])
        self.mean = nn.Conv2D(steps + 1, 1, 1, bias_attr=False)

    def forward(self, image, scale_factor):
        x, scores, sides, points, strides = self.stages[0](image), [], [], [], []
        for place in range(3):
            x = self.stages[place + 1](x)
            height, width = x.shape[2:]
            weighed = F.swish(x * F.sigmoid(self.weights[place](F.adaptive_avg_pool2d(x, (1, 1)))))
            scores.append(F.sigmoid(self.labels[place](weighed + x)).reshape([-1, self.classes, height * width]))
            bins = self.sides[place](weighed).reshape([-1, 4, self.steps + 1, height * width])
            sides.append(self.mean(F.softmax(bins.transpose([0, 2, 3, 1]), axis=1)).squeeze(1))
            down, across = paddle.meshgrid(paddle.arange(end=height) + 0.5, paddle.arange(end=width) + 0.5)
            points.append(paddle.cast(paddle.stack([across, down], axis=-1), "float32").reshape([-1, 2]))
            strides.append(paddle.full([height * width, 1], 4 * 2**place, dtype="float32"))
        before, behind = paddle.split(paddle.concat(sides, axis=1), 2, -1)
        points = paddle.concat(points)
        boxes = paddle.concat([points - before, points + behind], -1) * paddle.concat(strides)
        down, across = paddle.split(scale_factor, 2, axis=-1)
        boxes = boxes / paddle.concat([across, down, across, down], axis=-1).reshape([-1, 1, 4])
        found = suppress(boxes, paddle.concat(scores, axis=-1), score_threshold=0.3, keep_top_k=30)
        return found[0], found[2]


class Branch(nn.Layer):
    """What cannot be written as a graph."""

    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class Loop(nn.Layer):
    """The same with a loop."""

    def forward(self, x):
        count = paddle.to_tensor(0)
        while count < 3:
            x = x * 2
            count = count + 1
        return x


class Small(nn.Layer):
    """Convolutions of each kind and a matrix, to be quantized."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8)
        self.second, self.third, self.head = nn.Conv2D(8, 8, 3, groups=8), nn.Conv2D(8, 12, 1), nn.Linear(12, 5)

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.norm(self.first(x)))))
        return self.head(F.hardswish(self.third(y)).mean([2, 3]))


def quantized_afterwards():
    from paddle.quantization import PTQ, QuantConfig
    from paddle.quantization.observers import AbsmaxObserver

    network = spread(Small())
    network.eval()
    observer = AbsmaxObserver(quant_bits=8)
    method = PTQ(QuantConfig(activation=observer, weight=observer))
    watched = method.quantize(network, inplace=False)
    watched(paddle.to_tensor(PICTURES))
    return method.convert(watched, inplace=False)


def trained_with_quantization():
    from paddle.quantization import QAT, QuantConfig
    from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver

    quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    network = QAT(QuantConfig(activation=quanter, weight=quanter)).quantize(spread(Small()), inplace=False)
    network.train()
    for _ in range(3):
        network(paddle.to_tensor(PICTURES))
    return network


def spread(network):
    """Weights that keep the size of activations, and normalizations that change something."""
    rng = np.random.default_rng(0)
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if tensor.dtype != paddle.float32 or not tensor.shape:
            continue
        values, fan = (
            rng.standard_normal(tensor.shape),
            np.prod(tensor.shape[1:]) if len(tensor.shape) > 2 else tensor.shape[0],
        )
        if name.endswith("_variance"):
            values = np.abs(values) * 0.2 + 0.8
        elif len(tensor.shape) == 1:
            values = values * 0.1 + (1.0 if name.endswith("weight") else 0.0)
        else:
            values = values * np.sqrt(1.0 / max(fan, 1))
        tensor.set_value((values * (0.15 if name.startswith(("labels", "sides")) else 1.0)).astype("float32"))
    return network


def random(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


PICTURES = random(4, 3, 16, 16)
WORDS = np.random.default_rng(2).integers(0, 500, (2, 16))
KINDS = np.random.default_rng(3).integers(0, 2, (2, 16))
TEXT = {"input_ids": WORDS, "token_type_ids": KINDS}
SCENE = {"image": random(2, 3, 96, 96), "scale_factor": np.full((2, 2), 1.5, np.float32)}
COLLECTION = ("mobilenet_v1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "resnet18")

MODELS = {
    **{
        name: Model(
            lambda name=name: spread(getattr(paddle.vision.models, name)(pretrained=False)),
            {"image": [None, 3, 64, 64]},
            {"image": random(2, 3, 64, 64)},
        )
        for name in COLLECTION
    },
    "recognizer": Model(lambda: spread(Recognizer()), {"x": [None, 3, 32, None]}, {"x": random(2, 3, 32, 100)}),
    "recognizer_fixed": Model(lambda: spread(Recognizer()), {"x": [1, 3, 32, 100]}, {"x": random(1, 3, 32, 100)}),
    "text_detector": Model(lambda: spread(TextDetector()), {"x": [None, 3, None, None]}, {"x": random(1, 3, 64, 96)}),
    "text_encoder": Model(lambda: spread(Encoder()), {name: [None, None] for name in TEXT}, TEXT),
    "detector": Model(lambda: spread(Detector()), {"image": [None, 3, 96, 96], "scale_factor": [None, 2]}, SCENE),
}

QUANTIZED = {
    "quantized_afterwards": Model(quantized_afterwards, {"image": [4, 3, 16, 16]}, {"image": PICTURES}),
    "trained_with_quantization": Model(trained_with_quantization, {"image": [4, 3, 16, 16]}, {"image": PICTURES}),
}

BRANCHES = {
    "branch": Model(Branch, {"x": [3, 4]}, {"x": random(3, 4)}),
    "loop": Model(Loop, {"x": [3, 4]}, {"x": random(3, 4)}),
}
