"""Networks that MindSpore 2.0 and 2.7 can build, with what they are fed."""

import math

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops


def normal(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


class Block(nn.Cell):
    """A depthwise convolution and one of single pixels, each with batch normalization."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.SequentialCell(
            [
                nn.Conv2d(inputs, inputs, 3, stride, pad_mode="pad", padding=1, group=inputs),
                nn.BatchNorm2d(inputs),
                nn.ReLU(),
                nn.Conv2d(inputs, outputs, 1, 1, pad_mode="valid"),
                nn.BatchNorm2d(outputs),
                nn.ReLU6(),
            ]
        )

    def construct(self, x):
        return self.layers(x)


class MobileNet(nn.Cell):
    """MobileNetV1 of some width."""

    def __init__(self, width=24, classes=1000):
        super().__init__()
        sizes = [(width, 2 * width, 1), (2 * width, 4 * width, 2), (4 * width, 4 * width, 1)]
        sizes += [(4 * width, 8 * width, 2), (8 * width, 8 * width, 1), (8 * width, 16 * width, 2)]
        sizes += [(16 * width, 16 * width, 1)] * 5 + [(16 * width, 32 * width, 2), (32 * width, 32 * width, 1)]
        self.stem = nn.SequentialCell([nn.Conv2d(3, width, 3, 2, pad_mode="same"), nn.BatchNorm2d(width), nn.ReLU()])
        self.blocks = nn.SequentialCell([Block(*size) for size in sizes])
        self.pool = ops.ReduceMean(keep_dims=False)
        self.classes = nn.Dense(32 * width, classes)

    def construct(self, x):
        return self.classes(self.pool(self.blocks(self.stem(x)), (2, 3)))


class Residual(nn.Cell):
    """Convolutions with a shortcut, pooling of several kinds, a transposed convolution, and another size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, has_bias=True)
        self.second = nn.Conv2d(8, 8, 3, pad_mode="pad", padding=2, dilation=2)
        self.largest = nn.MaxPool2d(3, 2, pad_mode="same")
        self.mean = nn.AvgPool2d(2, 2)
        self.back = nn.Conv2dTranspose(8, 4, 3, stride=2, pad_mode="pad", padding=1, has_bias=True)
        self.norm = nn.GroupNorm(2, 4)
        self.slope = nn.PReLU(4)
        self.flat = nn.Flatten()

    def construct(self, x):
        x = self.first(x)
        x = ops.relu(x + self.second(x))
        x = self.mean(self.largest(x))
        x = self.slope(self.norm(self.back(x)))
        x = ops.concat((x[:, :2], ops.sigmoid(x[:, 2:])), 1) if hasattr(ops, "concat") else x
        return self.flat(x)


class Sequence(nn.Cell):
    """Recurrent layers on a sequence, and a dense layer on its last step."""

    def __init__(self, kind, width, **options):
        super().__init__()
        self.layers = kind(6, 7, batch_first=True, **options)
        self.dense = nn.Dense(width, 3)

    def construct(self, x):
        steps, states = self.layers(x)
        return self.dense(steps[:, -1, :]), states


class States(nn.Cell):
    """An LSTM with states of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(6, 7)

    def construct(self, x, h, c):
        return self.layer(x, (h, c))


class LstmCell(nn.Cell):
    """One step of an LSTM."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 7)

    def construct(self, x, h, c):
        return self.cell(x, (h, c))


class Attention(nn.Cell):
    """Self-attention of several heads, with a mask."""

    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(width, width) for _ in range(4))
        self.width, self.heads = width, heads
        self.softmax = nn.Softmax(-1)
        self.product = ops.BatchMatMul()
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.scale = Tensor(math.sqrt(width // heads), mindspore.float32)

    def split(self, x, batch, length):
        return x.reshape((batch, length, self.heads, self.width // self.heads)).transpose(0, 2, 1, 3)

    def construct(self, x, mask):
        batch, length, width = x.shape
        query = self.split(self.query(x), batch, length)
        key = self.split(self.key(x), batch, length)
        value = self.split(self.value(x), batch, length)
        weights = self.softmax(self.scores(query, key) / self.scale + mask)
        return self.out(self.product(weights, value).transpose(0, 2, 1, 3).reshape((batch, length, width)))


class Layer(nn.Cell):
    """Attention and a feed-forward network, each with a residual and layer normalization."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.wide, self.narrow = nn.Dense(width, 2 * width), nn.Dense(2 * width, width)
        self.activation, self.dropout = nn.GELU(approximate=False), nn.Dropout(p=0.1)

    def construct(self, x, mask):
        x = self.first(x + self.dropout(self.attention(x, mask)))
        return self.second(x + self.narrow(self.activation(self.wide(x))))


class Transformer(nn.Cell):
    """An encoder of words in the manner of BERT."""

    def __init__(self, width=16, heads=2, layers=2, words=50, length=12):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.CellList([Layer(width, heads) for _ in range(layers)])
        self.norm, self.pooled = nn.LayerNorm((width,)), nn.Dense(width, width, activation="tanh")
        self.place = Tensor(np.arange(length)[None], mindspore.int32)

    def construct(self, words, mask):
        hidden = (1.0 - ops.cast(mask, mindspore.float32).expand_dims(1).expand_dims(1)) * -10000.0
        x = self.norm(self.words(words) + self.places(self.place))
        for layer in self.layers:
            x = layer(x, hidden)
        return x, self.pooled(x[:, 0])


class Encoder(nn.Cell):
    """MindSpore's own encoder."""

    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2)

    def construct(self, x):
        return self.layers(x)


WORDS = np.random.default_rng(0).integers(0, 50, (1, 12)).astype(np.int32)
MASK = np.array([[1] * 9 + [0] * 3], np.int32)

NETWORKS = {
    "mobilenet": (MobileNet, [normal(1, 3, 224, 224)]),
    "mobilenet_small": (lambda: MobileNet(8, 10), [normal(1, 3, 64, 64)]),
    "residual": (Residual, [normal(2, 3, 17, 18)]),
    "lstm": (lambda: Sequence(nn.LSTM, 7), [normal(1, 5, 6)]),
    "lstm_both": (lambda: Sequence(nn.LSTM, 14, num_layers=2, bidirectional=True), [normal(2, 5, 6)]),
    "lstm_states": (States, [normal(5, 1, 6), normal(1, 1, 7), normal(1, 1, 7) + 1]),
    "lstm_cell": (LstmCell, [normal(1, 6), normal(1, 7), normal(1, 7) + 1]),
    "gru": (lambda: Sequence(nn.GRU, 14, bidirectional=True), [normal(2, 5, 6)]),
    "rnn": (lambda: Sequence(nn.RNN, 7), [normal(1, 5, 6)]),
    "transformer": (Transformer, [WORDS, MASK]),
    "encoder": (Encoder, [normal(1, 12, 16)]),
}
"""Name -> the network, and what it is fed."""

DYNAMIC = {
    "mobilenet_small": [(None, 3, None, None)],
    "lstm": [(None, 5, 6)],
    "transformer": [(None, 12), (None, 12)],
}
"""Networks that are exported with open sizes, too."""
