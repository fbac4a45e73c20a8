"""Layers and detectors' operators; runs inside the environment of Paddle alone."""

from __future__ import annotations

import numpy as np
import paddle
from paddle import nn
from paddle.vision import ops as V  # noqa: N812
from parts import CORNERS, PICTURE, SCORES, SERIES, Case, Net, f32, i64, layer, pos


def bilinear(*sizes, **flags):
    """A Bilinear layer of two inputs."""
    return Net(nn.Bilinear(*sizes, **flags), f=lambda layers, one, other: layers[0](one, other))


def suppress(boxes, scores, score_threshold=0.1, nms_top_k=100, keep_top_k=100, normalized=True, background_label=-1):
    """multiclass_nms3, for which Paddle itself has no function; the older one knows it only in a program."""
    numbers = {"score_threshold": score_threshold, "nms_top_k": nms_top_k, "keep_top_k": keep_top_k}
    numbers |= {"nms_threshold": 0.4, "normalized": normalized, "nms_eta": 1.0, "background_label": background_label}
    if paddle.__version__.startswith("3"):
        return paddle._C_ops.multiclass_nms3(boxes, scores, None, *numbers.values())
    helper = paddle.base.layer_helper.LayerHelper("multiclass_nms3")
    kinds = {"Out": "float32", "Index": "int32", "NmsRoisNum": "int32"}
    made = {slot: helper.create_variable_for_type_inference(kind) for slot, kind in kinds.items()}
    given = {"BBoxes": boxes, "Scores": scores}
    helper.append_op(type="multiclass_nms3", inputs=given, attrs=numbers, outputs=made)
    return tuple(made.values())


LAYERS = {
    **{
        f"{name}pool{kind}": layer(lambda make=make, how=how: make(*how[0], **how[1]), (PICTURE,))
        for name, make in (("max", nn.MaxPool2D), ("avg", nn.AvgPool2D))
        for kind, how in (
            ("", ((3, 2, 1), {})),
            ("_ceil", ((3, 2, 1), {"ceil_mode": True})),
            ("_same", ((3, 2, "SAME"), {})),
            ("_pad4", ((3, 2, [1, 0, 0, 1]), {})),
            ("_ceil0", ((2, 2, 0), {"ceil_mode": True})),
            ("_valid", ((3, 2, "VALID"), {})),
        )
    },
    "conv_bn_relu": layer(lambda: [nn.Conv2D(4, 6, 3), nn.BatchNorm2D(6), nn.ReLU()], (PICTURE,)),
    "conv": layer(lambda: nn.Conv2D(4, 6, 3, padding=1), (PICTURE,)),
    "conv_nobias": layer(lambda: nn.Conv2D(4, 6, 3, stride=2, bias_attr=False), (PICTURE,)),
    "conv_group": layer(lambda: nn.Conv2D(4, 6, 3, groups=2, dilation=2), (PICTURE,)),
    "conv_dw": layer(lambda: nn.Conv2D(4, 4, 3, groups=4, padding=1), (PICTURE,)),
    "conv_dw2": layer(lambda: nn.Conv2D(4, 8, 3, groups=4, padding=1), (PICTURE,)),
    "conv_same": layer(lambda: nn.Conv2D(4, 6, 3, stride=2, padding="SAME"), (PICTURE,)),
    "conv_valid": layer(lambda: nn.Conv2D(4, 6, 3, padding="VALID"), (PICTURE,)),
    "conv_pad4": layer(lambda: nn.Conv2D(4, 6, 3, padding=[1, 2, 0, 1]), (PICTURE,)),
    "conv_reflect": layer(lambda: nn.Conv2D(4, 6, 3, padding=1, padding_mode="reflect"), (PICTURE,)),
    "conv_nhwc": layer(lambda: nn.Conv2D(4, 6, 3, padding=1, data_format="NHWC"), (f32(2, 9, 8, 4),)),
    "conv_same_dil": layer(lambda: nn.Conv2D(4, 6, 3, dilation=2, padding="SAME"), (PICTURE,)),
    "conv_same_dyn": layer(lambda: nn.Conv2D(4, 6, 3, stride=2, padding="SAME"), (PICTURE,), [[None, 4, None, None]]),
    "conv1d": layer(lambda: nn.Conv1D(4, 6, 3, padding=1), (f32(2, 4, 9),)),
    "conv3d": layer(lambda: nn.Conv3D(2, 3, 3, padding=1), (f32(1, 2, 5, 6, 7),)),
    "conv1d_dw": layer(lambda: nn.Conv1D(4, 4, 3, groups=4), (f32(2, 4, 9),)),
    "deconv": layer(lambda: nn.Conv2DTranspose(4, 6, 3, stride=2), (PICTURE,)),
    "deconv_pad": layer(lambda: nn.Conv2DTranspose(4, 6, 4, stride=2, padding=1), (PICTURE,)),
    "deconv_outpad": layer(lambda: nn.Conv2DTranspose(4, 6, 3, stride=2, padding=1, output_padding=1), (PICTURE,)),
    "deconv_group": layer(lambda: nn.Conv2DTranspose(4, 6, 3, groups=2), (PICTURE,)),
    "deconv_dw": layer(lambda: nn.Conv2DTranspose(4, 4, 2, stride=2, groups=4), (PICTURE,)),
    "deconv_size": layer(
        lambda: Net(nn.Conv2DTranspose(4, 6, 3, stride=2, padding=1), f=lambda net, x: net[0](x, output_size=[18, 16])),
        (PICTURE,),
    ),
    "deconv1d": layer(lambda: nn.Conv1DTranspose(4, 6, 3, stride=2), (f32(2, 4, 9),)),
    "deconv3d": layer(lambda: nn.Conv3DTranspose(2, 3, 3, stride=2), (f32(1, 2, 3, 4, 5),)),
    "deconv_same": layer(lambda: nn.Conv2DTranspose(4, 6, 3, stride=2, padding="SAME"), (PICTURE,)),
    "deconv_dil": layer(lambda: nn.Conv2DTranspose(4, 6, 3, dilation=2), (PICTURE,)),
    "bn": layer(lambda: nn.BatchNorm2D(4), (PICTURE,)),
    "bn1d": layer(lambda: nn.BatchNorm1D(4), (f32(2, 4, 5),)),
    "bn1d2": layer(lambda: nn.BatchNorm1D(4), (f32(5, 4),)),
    "bn3d": layer(lambda: nn.BatchNorm3D(2), (f32(1, 2, 3, 4, 5),)),
    "bn_noaffine": layer(lambda: nn.BatchNorm2D(4, weight_attr=False, bias_attr=False), (PICTURE,)),
    "bn_nhwc": layer(lambda: nn.BatchNorm2D(4, data_format="NHWC"), (f32(2, 9, 8, 4),)),
    "ln": layer(lambda: nn.LayerNorm(8), (PICTURE,)),
    "ln2": layer(lambda: nn.LayerNorm([9, 8]), (PICTURE,)),
    "ln_noaffine": layer(lambda: nn.LayerNorm(8, weight_attr=False, bias_attr=False), (PICTURE,)),
    "ln_nobias": layer(lambda: nn.LayerNorm(8, bias_attr=False), (PICTURE,)),
    "gn": layer(lambda: nn.GroupNorm(2, 4), (PICTURE,)),
    "gn_dyn": layer(lambda: nn.GroupNorm(2, 4), (PICTURE,), [[None, 4, None, None]]),
    "gn_noaffine": layer(lambda: nn.GroupNorm(2, 4, weight_attr=False, bias_attr=False), (PICTURE,)),
    "in": layer(lambda: nn.InstanceNorm2D(4), (PICTURE,)),
    "in_noaffine": layer(lambda: nn.InstanceNorm2D(4, weight_attr=False, bias_attr=False), (PICTURE,)),
    "in1d": layer(lambda: nn.InstanceNorm1D(4), (f32(2, 4, 7),)),
    "lrn": layer(lambda: nn.LocalResponseNorm(5), (PICTURE,)),
    "ln_dyn": layer(lambda: nn.LayerNorm(8), (f32(2, 5, 8),), [[None, None, 8]]),
    "rms_like": layer(
        lambda: Net(f=lambda net, x: x * paddle.rsqrt(paddle.mean(x * x, axis=-1, keepdim=True) + 1e-06)), (PICTURE,)
    ),
    "avgpool_incl": layer(lambda: nn.AvgPool2D(3, 2, 1, exclusive=False), (PICTURE,)),
    "avgpool_div": layer(lambda: nn.AvgPool2D(3, 2, 1, divisor_override=5), (PICTURE,)),
    "gap": layer(lambda: nn.AdaptiveAvgPool2D(1), (PICTURE,)),
    "gmp": layer(lambda: nn.AdaptiveMaxPool2D(1), (PICTURE,)),
    "aap3": layer(lambda: nn.AdaptiveAvgPool2D((3, 4)), (PICTURE,)),
    "aap_odd": layer(lambda: nn.AdaptiveAvgPool2D((4, 3)), (PICTURE,)),
    "amp_odd": layer(lambda: nn.AdaptiveMaxPool2D((4, 3)), (PICTURE,)),
    "aap_none": layer(lambda: nn.AdaptiveAvgPool2D((None, 1)), (PICTURE,)),
    "gap_dyn": layer(lambda: nn.AdaptiveAvgPool2D(1), (PICTURE,), [[None, 4, None, None]]),
    "maxpool1d": layer(lambda: nn.MaxPool1D(2, 2), (f32(2, 4, 8),)),
    "avgpool1d": layer(lambda: nn.AvgPool1D(2, 2), (f32(2, 4, 8),)),
    "aap1d": layer(lambda: nn.AdaptiveAvgPool1D(1), (f32(2, 4, 8),)),
    "maxpool3d": layer(lambda: nn.MaxPool3D(2, 2), (f32(1, 2, 4, 4, 4),)),
    "avgpool3d": layer(lambda: nn.AvgPool3D(2, 2), (f32(1, 2, 4, 4, 4),)),
    "aap3d": layer(lambda: nn.AdaptiveAvgPool3D(1), (f32(1, 2, 4, 4, 4),)),
    "maxpool_mask": layer(lambda: Net(nn.MaxPool2D(2, 2, return_mask=True)), (f32(1, 2, 4, 4),)),
    "maxpool_nhwc": layer(lambda: nn.MaxPool2D(2, 2, data_format="NHWC"), (f32(1, 4, 4, 2),)),
    "prelu": layer(lambda: nn.PReLU(4), (PICTURE,)),
    "prelu1": layer(lambda: nn.PReLU(1), (PICTURE,)),
    "linear_l": layer(lambda: nn.Linear(8, 5), (PICTURE,)),
    "bilinear_l": layer(lambda: bilinear(8, 6, 5), (f32(3, 8), f32(3, 6))),
    "bilinear_nb": layer(lambda: bilinear(8, 6, 5, bias_attr=False), (f32(3, 8), f32(3, 6)), [[None, 8], [None, 6]]),
    "linear_nb": layer(lambda: nn.Linear(8, 5, bias_attr=False), (f32(3, 8),)),
    "embed": layer(lambda: nn.Embedding(9, 4), (i64(9, 2, 3),)),
    "embed_pad": layer(lambda: nn.Embedding(9, 4, padding_idx=0), (i64(9, 2, 3),)),
    "upsample": layer(lambda: nn.Upsample(scale_factor=2, mode="nearest"), (PICTURE,)),
    "pixshuf": layer(lambda: nn.PixelShuffle(2), (PICTURE,)),
    "lstm": layer(lambda: nn.LSTM(6, 4), (SERIES,)),
    "lstm_bi": layer(lambda: nn.LSTM(6, 4, direction="bidirect"), (SERIES,)),
    "lstm_2l": layer(lambda: nn.LSTM(6, 4, num_layers=2), (SERIES,)),
    "lstm_bi2": layer(lambda: nn.LSTM(6, 4, num_layers=2, direction="bidirect"), (SERIES,)),
    "lstm_tm": layer(lambda: nn.LSTM(6, 4, time_major=True), (SERIES,)),
    "gru": layer(lambda: nn.GRU(6, 4), (SERIES,)),
    "gru_bi": layer(lambda: nn.GRU(6, 4, direction="bidirect"), (SERIES,)),
    "rnn": layer(lambda: nn.SimpleRNN(6, 4), (SERIES,)),
    "rnn_relu": layer(lambda: nn.SimpleRNN(6, 4, activation="relu"), (SERIES,)),
    "lstm_dyn": layer(lambda: nn.LSTM(6, 4, direction="bidirect"), (SERIES,), [[None, None, 6]]),
    "lstm_state": layer(
        lambda: Net(nn.LSTM(6, 4), f=lambda net, x, h, c: net[0](x, (h, c))), (SERIES, f32(1, 2, 4), f32(1, 2, 4))
    ),
    "lstm_len": layer(
        lambda: Net(nn.LSTM(6, 4), f=lambda net, x, n: net[0](x, sequence_length=n)), (SERIES, np.array([5, 3]))
    ),
    "lstm_cell": layer(lambda: Net(nn.LSTMCell(6, 4), f=lambda net, x: net[0](x)), (f32(2, 6),)),
    "gru_cell": layer(lambda: Net(nn.GRUCell(6, 4), f=lambda net, x: net[0](x)), (f32(2, 6),)),
    "lstm_out": layer(lambda: Net(nn.LSTM(6, 4), f=lambda net, x: net[0](x)[0]), (SERIES,)),
    "mha": layer(lambda: Net(nn.MultiHeadAttention(8, 2), f=lambda net, x: net[0](x, x, x)), (f32(2, 5, 8),)),
    "encoder": layer(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu"), 2),
        (f32(2, 5, 8),),
    ),
    "decoder": layer(
        lambda: Net(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), f=lambda net, x, y: net[0](x, y)),
        (f32(2, 5, 8), f32(2, 3, 8)),
    ),
    "encoder_dyn": layer(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1), 1),
        (f32(2, 5, 8),),
        [[None, None, 8]],
    ),
    "deform": layer(
        lambda: Net(paddle.vision.ops.DeformConv2D(4, 6, 3, padding=1), f=lambda net, x, o, m: net[0](x, o, m)),
        (f32(1, 4, 6, 6), f32(1, 18, 6, 6), f32(1, 9, 6, 6)),
    ),
}

BOXES = {
    "nms3": Case(lambda b, s: suppress(b, s), (CORNERS, SCORES)),
    "nms3_keep": Case(lambda b, s: suppress(b, s, keep_top_k=3), (CORNERS, SCORES)),
    "nms3_topk": Case(lambda b, s: suppress(b, s, nms_top_k=2), (CORNERS, SCORES)),
    "nms3_bg": Case(lambda b, s: suppress(b, s, background_label=0), (CORNERS, SCORES)),
    "nms3_norm": Case(lambda b, s: suppress(b, s, normalized=False), (CORNERS, SCORES)),
    "nms3_batch": Case(
        lambda b, s: suppress(b, s, keep_top_k=3), (np.concatenate([CORNERS, CORNERS * 1.5]), pos(2, 3, 5, seed=2) / 3)
    ),
    "nms3_none": Case(lambda b, s: suppress(b, s, score_threshold=9.0), (CORNERS, SCORES)),
    "nms3_dyn": Case(lambda b, s: suppress(b, s, keep_top_k=3), (CORNERS, SCORES), [[None, None, 4], [None, 3, None]]),
    "matrix_nms": Case(
        lambda b, s: V.matrix_nms(b, s, 0.1, 0.05, 4, 3, return_index=True, return_rois_num=True, background_label=-1),
        (CORNERS, SCORES),
    ),
    "yolo_box": Case(
        lambda x, s: V.yolo_box(x, s, [10, 13, 16, 30, 33, 23], 4, 0.01, 32),
        (f32(1, 27, 4, 4), np.array([[128, 96]], np.int32)),
    ),
    "yolo_box_open": Case(
        lambda x, s: V.yolo_box(x, s, [10, 13, 16, 30], 4, 0.01, 32),
        (f32(2, 18, 4, 3), np.array([[128, 96], [64, 99]], np.int32)),
        [[None, 18, None, None], [None, 2]],
    ),
    "yolo_box_clip": Case(
        lambda x, s: V.yolo_box(x, s, [10, 13, 16, 30], 3, 0.3, 16, clip_bbox=False, scale_x_y=1.05),
        (f32(2, 16, 4, 5), np.array([[128, 96], [64, 64]], np.int32)),
    ),
    "yolo_box_iou": Case(
        lambda x, s: V.yolo_box(x, s, [10, 13, 16, 30], 3, 0.01, 16, iou_aware=True, iou_aware_factor=0.4),
        (f32(1, 18, 4, 5), np.array([[128, 96]], np.int32)),
    ),
    "prior_box": Case(
        lambda x, i: V.prior_box(x, i, [4.0], [8.0], [2.0], flip=True, clip=True), (f32(1, 2, 3, 3), f32(1, 3, 12, 12))
    ),
    "box_coder": Case(
        lambda p, t: V.box_coder(p, [0.1, 0.1, 0.2, 0.2], t, code_type="decode_center_size", axis=0),
        (pos(5, 4) + np.array([0, 0, 2, 2], np.float32), f32(3, 5, 4)),
    ),
    "roi_align": Case(
        lambda x, b, n: V.roi_align(x, b, n, 2, spatial_scale=0.5, aligned=False),
        (f32(1, 2, 8, 8), np.array([[0, 0, 10, 10], [2, 2, 12, 9]], np.float32), np.array([2], np.int32)),
    ),
    "roi_align_al": Case(
        lambda x, b, n: V.roi_align(x, b, n, 2, spatial_scale=0.5, sampling_ratio=2),
        (f32(1, 2, 8, 8), np.array([[0, 0, 10, 10], [2, 2, 12, 9]], np.float32), np.array([2], np.int32)),
    ),
    "nms_plain": Case(lambda b: V.nms(b, 0.4), (CORNERS[0],)),
    "nms_scores": Case(lambda b, s: V.nms(b, 0.4, s), (CORNERS[0], SCORES[0, 0]), [[None, 4], [None]]),
    "nms_classes": Case(
        lambda b, s, c: V.nms(b, 0.4, s, c, [0, 1], top_k=4), (CORNERS[0], SCORES[0, 0], np.arange(5) % 2)
    ),
}
