"""Cases of products of matrices, and of recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.formats.tflite.case import Case, Fed, Floats, Operand, Variable, normal, single
from tests.formats.tflite.reference import lstm, sigmoid

TANH = 4


def products() -> Iterator[Case]:
    weight, bias, x = normal(5, 4), normal(5), normal(3, 4)
    yield single("", "FULLY_CONNECTED", [Fed(x), weight, bias], x @ weight.T + bias)
    made = np.maximum(x @ weight.T, 0)
    yield single("relu, no bias", "FULLY_CONNECTED", [Fed(x), weight, None], made, activation=1)
    deep = normal(2, 3, 4)
    yield single("flat", "FULLY_CONNECTED", [Fed(deep), weight, bias], (deep @ weight.T + bias).reshape(6, 5))
    yield single("kept axes", "FULLY_CONNECTED", [Fed(deep), weight, bias], deep @ weight.T + bias, keep_num_dims=True)
    picture = normal(2, 1, 2, 2)
    made = picture.reshape(2, 4) @ weight.T + bias
    yield single("of pictures", "FULLY_CONNECTED", [Fed(picture), weight, bias], made)
    yield single("computed weight", "FULLY_CONNECTED", [Fed(x), Fed(weight), bias], x @ weight.T + bias)
    y = normal(2, 4, 5)
    yield single("", "BATCH_MATMUL", [Fed(deep), Fed(y)], deep @ y)
    turned = (deep.transpose(0, 2, 1).copy(), y.transpose(0, 2, 1).copy())
    yield single("turned", "BATCH_MATMUL", [Fed(turned[0]), Fed(turned[1])], deep @ y, adj_x=True, adj_y=True)
    yield single("constant", "BATCH_MATMUL", [Fed(deep), y], deep @ y)
    yield single("constant, turned", "BATCH_MATMUL", [Fed(deep), turned[1]], deep @ y, adj_y=True)


def weights(units: int, columns: int, outputs: int | None = None, seed: int = 0) -> dict[str, Floats]:
    found = {f"w{g}": normal(units, columns, seed=seed + n) for n, g in enumerate("ifco")}
    found |= {f"r{g}": normal(units, outputs or units, seed=seed + 4 + n) * 0.5 for n, g in enumerate("ifco")}
    return found | {f"b{g}": normal(units, seed=seed + 8 + n) for n, g in enumerate("ifco")}


def layer(w: dict[str, Floats]) -> list[Operand]:
    """Inputs 1 to 17 of an LSTM."""
    names = [*(f"w{g}" for g in "ifco"), *(f"r{g}" for g in "ifco"), "pi", "pf", "po", *(f"b{g}" for g in "ifco")]
    return [w.get(name) for name in (*names, "proj", "projb")]


def sequences() -> Iterator[Case]:
    x, kind = normal(2, 5, 3), "UNIDIRECTIONAL_SEQUENCE_LSTM"
    states: list[Operand] = [Variable((2, 4)), Variable((2, 4))]
    plain = weights(4, 3)
    yield single("", kind, [Fed(x), *layer(plain), *states], lstm(x, plain), activation=TANH)
    clipped = {"cell_clip": 0.3}
    yield single(
        "bounded", kind, [Fed(x), *layer(plain), *states], lstm(x, plain, **clipped), activation=TANH, **clipped
    )
    far = {"cell_clip": 10.0}
    yield single("bounded far away", kind, [Fed(x), *layer(plain), *states], lstm(x, plain), activation=TANH, **far)
    turned = np.ascontiguousarray(lstm(x, plain).transpose(1, 0, 2))
    major = np.ascontiguousarray(x.transpose(1, 0, 2))
    yield single("time first", kind, [Fed(major), *layer(plain), *states], turned, activation=TANH, time_major=True)
    coupled = {name: array for name, array in plain.items() if name not in ("wi", "ri", "bi")}
    yield single("coupled gates", kind, [Fed(x), *layer(coupled), *states], lstm(x, coupled), activation=TANH)
    seen = plain | {f"p{g}": normal(4, seed=20 + n) for n, g in enumerate("ifo")}
    yield single("peepholes", kind, [Fed(x), *layer(seen), *states], lstm(x, seen), activation=TANH)
    short = weights(4, 3, 2, seed=30) | {"proj": normal(2, 4, seed=5), "projb": normal(2, seed=6)}
    bounds = {"proj_clip": 0.8, "cell_clip": 1.5}
    both: list[Operand] = [Variable((2, 2)), Variable((2, 4))]
    made = lstm(x, short, **bounds)
    yield single("projected", kind, [Fed(x), *layer(short), *both], made, activation=TANH, **bounds)
    normed = plain | {f"n{g}": normal(4, seed=40 + n) for n, g in enumerate("ifco")}
    operands = [Fed(x), *layer(normed), *states, *(normed[f"n{g}"] for g in "ifco")]
    yield single("normalized gates", kind, operands, lstm(x, normed), activation=TANH, tolerance=1e-5)


def both_ways() -> Iterator[Case]:
    x, forward, backward = normal(2, 5, 3), weights(4, 3), weights(4, 3, seed=50)
    one, other = lstm(x, forward), lstm(x[:, ::-1], backward)[:, ::-1]
    states = [Variable((2, 4)) for _ in range(4)]
    operands = [Fed(x), *layer(forward), *layer(backward), *states, *[None] * 9]
    kind, options = "BIDIRECTIONAL_SEQUENCE_LSTM", {"activation": TANH, "time_major": False}
    yield single("", kind, operands, [one, other.copy()], **options)
    made = np.concatenate([one, other], -1)
    yield single("merged", kind, operands, [made], merge_outputs=True, **options)


def plain_layers() -> Iterator[Case]:
    x, w, r, b = normal(2, 5, 3), normal(4, 3), normal(4, 4) * np.float32(0.5), normal(4)
    made = rnn(x, w, r, b)
    operands: list[Operand] = [Fed(x), w, r, b, Variable((2, 4))]
    yield single("", "UNIDIRECTIONAL_SEQUENCE_RNN", operands, made, activation=TANH)
    back = np.ascontiguousarray(rnn(x[:, ::-1], w, r, b)[:, ::-1])
    operands = [Fed(x), w, r, b, Variable((2, 4)), w, r, b, Variable((2, 4)), *[None] * 3]
    kind = "BIDIRECTIONAL_SEQUENCE_RNN"
    yield single("", kind, operands, [made, back], activation=TANH)
    merged = np.concatenate([made, back], -1)
    yield single("merged", kind, operands, [merged], activation=TANH, merge_outputs=True)


def rnn(x: Floats, w: Floats, r: Floats, b: Floats) -> Floats:
    h, made = np.zeros((len(x), len(b)), np.float32), []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w.T + h @ r.T + b)
        made.append(h)
    return np.stack(made, 1)


def one_step() -> Iterator[Case]:
    x, h, c, w, b = normal(2, 3), normal(2, 4), normal(2, 4, seed=2), normal(16, 7), normal(16)
    gates = np.concatenate([x, h], 1) @ w.T + b
    i, g, f, o = np.split(gates, 4, 1)
    cell = sigmoid(i) * np.tanh(g) + sigmoid(f) * c
    made = (sigmoid(o) * np.tanh(cell)).astype(np.float32)
    outputs = [made, cell.astype(np.float32), np.concatenate([x, h], 1), gates]
    options = {"activation": TANH, "kernel_type": 1}
    yield from (single("basic", "LSTM", [Fed(x), Fed(h), w, b, Fed(c)], outputs, **options),)


CASES = [*products(), *sequences(), *both_ways(), *plain_layers(), *one_step()]
