"""Layers that move values, in every variant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.case import TWICE, Case, one, several
from tests.formats.caffe.networks import layer, net
from tests.support import normal

Array = NDArray[Any]


SHAPES = {
    "Reshape": one("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 7 } }", lambda x: x.reshape(2, 18, 7)),
    "Reshape of some axes": one(
        "Reshape",
        "reshape_param { shape { dim: 2 dim: -1 } axis: 2 num_axes: 1 }",
        lambda x: x.reshape(2, 3, 2, 3, 7),
    ),
    "Reshape that keeps one": one(
        "Reshape",
        "reshape_param { shape { dim: 0 dim: -1 } axis: -3 num_axes: 2 }",
        lambda x: x,
    ),
    "Reshape that adds one": one(
        "Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", lambda x: x[..., None]
    ),
    "Flatten": one("Flatten", "", lambda x: x.reshape(2, -1)),
    "Flatten of some axes": one("Flatten", "flatten_param { axis: 1 end_axis: 2 }", lambda x: x.reshape(2, 18, 7)),
    "Permute": one(
        "Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", lambda x: x.transpose(0, 2, 3, 1)
    ),
    "Permute of the first axes": one("Permute", "permute_param { order: 2 }", lambda x: x.transpose(2, 0, 1, 3)),
    "Concat": several(TWICE, "", "Concat", "x b", lambda x: np.concatenate([x, -2 * x], 1)),
    "Concat of the last axis": several(
        TWICE, "concat_param { axis: -1 }", "Concat", "x b", lambda x: np.concatenate([x, -2 * x], 3)
    ),
    "Concat by its old name": several(
        TWICE,
        "concat_param { concat_dim: 0 }",
        "Concat",
        "x b",
        lambda x: np.concatenate([x, -2 * x], 0),
    ),
    "Slice": Case(
        net(layer("Slice", "", tops="a b c") + layer("Eltwise", "eltwise_param { operation: PROD }", "a c")),
        lambda x: x[:, :1] * x[:, 2:],
    ),
    "Slice at points": Case(
        net(
            layer("Slice", "slice_param { axis: 2 slice_point: 1 slice_point: 4 }", tops="a b c")
            + layer("Concat", "concat_param { axis: 2 }", "c b a")
        ),
        lambda x: np.concatenate([x[:, :, 4:], x[:, :, 1:4], x[:, :, :1]], 2),
    ),
    "Slice by its old name": Case(
        net(layer("Slice", "slice_param { slice_dim: 0 }", tops="a b") + layer("Eltwise", "", "a b")),
        lambda x: x[:1] + x[1:],
    ),
    "Crop": Case(
        net(
            layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p")
            + layer("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", "x p")
        ),
        lambda x: x[:, :, 1:5, 2:7],
    ),
    "Crop with one offset": Case(
        net(
            layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p")
            + layer("Crop", "crop_param { offset: 1 }", "x p")
        ),
        lambda x: x[:, :, 1:5, 1:6],
    ),
    "Crop from the start": Case(
        net(layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p") + layer("Crop", "", "x p")),
        lambda x: x[:, :, :4, :5],
    ),
    "Tile": one("Tile", "tile_param { tiles: 3 }", lambda x: np.tile(x, (1, 3, 1, 1))),
    "Tile of the first axis": one("Tile", "tile_param { axis: 0 tiles: 2 }", lambda x: np.tile(x, (2, 1, 1, 1))),
    "ShuffleChannel": one(
        "ShuffleChannel",
        "shuffle_channel_param { group: 2 }",
        lambda x: x[:, [0, 3, 1, 4, 2, 5]],
        x=normal(2, 6, 3, 4),
    ),
    "Split": Case(
        net(
            layer("Split", "", tops="a b")
            + layer("Power", "power_param { scale: 2 }", "a", "c")
            + layer("Eltwise", "", "b c")
        ),
        lambda x: 3 * x,
    ),
    "Dropout": one("Dropout", "dropout_param { dropout_ratio: 0.4 scale_train: true }", lambda x: x),
    "Dropout that scales here": Case(
        net(
            layer("Dropout", "", tops="x")
            + layer("Dropout", "dropout_param { dropout_ratio: 0.2 scale_train: false }", "x", "x", "second")
            + layer("ReLU")
        ),
        lambda x: np.float32(0.8) * np.maximum(x, 0),
    ),
    "Silence": Case(net(layer("Slice", "", tops="a y b") + layer("Silence", "", "a b", "")), lambda x: x[:, 1:2]),
    "Interp by a factor": one("Interp", "interp_param { zoom_factor: 2 }", lambda x: caffe.interp(x, 11, 13)),
    "Interp to a size": one("Interp", "interp_param { height: 9 width: 4 }", lambda x: caffe.interp(x, 9, 4)),
    "Interp that shrinks": one("Interp", "interp_param { shrink_factor: 2 }", lambda x: caffe.interp(x, 3, 4)),
    "Interp by both factors": one(
        "Interp", "interp_param { shrink_factor: 2 zoom_factor: 3 }", lambda x: caffe.interp(x, 7, 10)
    ),
    "Interp of the middle": one(
        "Interp",
        "interp_param { height: 5 width: 6 pad_beg: -1 pad_end: -2 }",
        lambda x: caffe.interp(x[:, :, 1:4, 1:5], 5, 6),
    ),
    "Interp to one place": one("Interp", "interp_param { height: 1 width: 1 }", lambda x: x[:, :, :1, :1]),
    "Interp to the size of a blob": Case(
        net(layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p") + layer("Interp", "", "x p")),
        lambda x: caffe.interp(x, 4, 5),
    ),
    "Upsample": one("Upsample", "upsample_param { scale: 3 }", lambda x: x.repeat(3, axis=2).repeat(3, axis=3)),
}
