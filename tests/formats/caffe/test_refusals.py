"""What cannot be read right is refused: the layer, its line, the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import ModelError
from tests.formats.caffe.networks import Blobs, layer, net, read, save
from tests.support import normal

W, B = normal(4, 3, 3, 3), normal(4)
CONV = "num_output: 4 kernel_size: 3"


def conv(words: str) -> str:
    return layer("Convolution", f"convolution_param {{ {words} }}")


def pool(words: str) -> str:
    return layer("Pooling", f"pooling_param {{ {words} }}")


def detect(words: str, nms: str = "", priors: str = "map image") -> str:
    return (
        layer("Flatten", tops="f")
        + layer("PriorBox", "prior_box_param { min_size: 4 }", "x x", "p")
        + layer("DetectionOutput", f"detection_output_param {{ {words} nms_param {{ {nms} }} }}", f"f f {priors}")
    )


VECTOR = layer("Reshape", "reshape_param { shape { dim: -1 } }", tops="v", name="vector")
PAIR = layer("Slice", "slice_param { slice_point: 1 }", tops="a b")

REFUSED: dict[str, tuple[str, str]] = {
    "a type of nobody": (layer("Magic"), "no layer type of Caffe or of its forks that is known here"),
    "a misspelt type": (layer("Convolutoin"), "did you mean Convolution?"),
    "training data": (layer("Data", bottoms=""), "it reads training data"),
    "a loss": (layer("SoftmaxWithLoss", bottoms="x x"), "it is for training"),
    "a program": (layer("Python"), "it runs a program of its own"),
    "an LSTM": (layer("LSTM", bottoms="x x"), "it keeps its state from one call to the next"),
    "detections of YOLO": (layer("Yolov3DetectionOutput", bottoms="x x"), "detections of YOLO"),
    "regions": (layer("ROIPooling", bottoms="x x"), "regions that are known at run time"),
    "a field of a fork": (conv(f"{CONV} pad_type: 1"), "a field that is not known here: pad_type"),
    "a misspelt field": (conv(f"{CONV} dilatoin: 1"), "did you mean dilation?"),
    "no bottom": (layer("ReLU", bottoms=""), "it has 0 bottoms, and not 1"),
    "too many tops": (layer("ReLU", tops="y z"), "it has 2 tops, and not 1"),
    "few bottoms": (layer("Eltwise"), "it has 1 bottom, and not 2 or more"),
    "too few bottoms of several": (layer("Interp", bottoms="x x x"), "it has 3 bottoms, and not 1 to 2"),
    "an unwritten blob": (layer("ReLU", bottoms="z"), "it reads 'z', which no layer before it writes"),
    "a blob of two layers": (layer("ReLU") + layer("TanH"), "it writes 'y', which another layer writes"),
    "no kernel": (conv("num_output: 4"), "kernel_size has 0 numbers for 2 dimensions"),
    "half a kernel": (conv("num_output: 4 kernel_h: 3"), "kernel_h and kernel_w belong together"),
    "two kernels": (conv("num_output: 4 kernel_h: 3 kernel_w: 3 kernel_size: 3"), "stand alone"),
    "stride 0": (conv(f"{CONV} stride: 0"), r"stride \[0, 0\]"),
    "channels in another axis": (conv(f"{CONV} axis: 2"), "channels along axis 2"),
    "no axis": (conv(f"{CONV} axis: 4"), "axis is 4, and 'x' has 4 dimensions"),
    "groups": (conv(f"{CONV} group: 2"), "3 channels become 4 in 2 groups"),
    "other weights": (
        conv("num_output: 5 kernel_size: 3"),
        r"shape \[4, 3, 3, 3\] in the weight file, not \[5, 3, 3, 3\]",
    ),
    "more weights": (conv(f"{CONV} bias_term: false"), "has 2 blobs for it, and its parameters ask for 1"),
    "more tops than bottoms": (
        layer("Convolution", f"convolution_param {{ {CONV} }}", "x", "y z"),
        "1 bottoms and 2 tops",
    ),
    "a window that is too large": (pool("kernel_size: 9"), "a window of 9 is larger than 6"),
    "a window behind the end": (pool("kernel_size: 1 stride: 4"), "begins behind the end of 6"),
    "a pad like the window": (pool("kernel_size: 2 pad: 2"), r"kernel \[2, 2\], stride \[1, 1\], pad \[2, 2\]"),
    "chance": (pool("kernel_size: 2 pool: STOCHASTIC"), "stochastic pooling"),
    "pooling without a kernel": (pool("stride: 2"), "it has no kernel"),
    "half a pad": (pool("kernel_size: 2 pad_h: 1"), "pad_h and pad_w belong together"),
    "all with a kernel": (pool("kernel_size: 2 global_pooling: true"), "global pooling with a kernel"),
    "places of maxima": (layer("Pooling", "pooling_param { kernel_size: 2 }", tops="y z"), "places of the maxima"),
    "a pool of nobody": (pool("kernel_size: 2 pool: AVE_EXC_PAD"), "pool is 'AVE_EXC_PAD'"),
    "pooling of a matrix": (
        layer("Flatten", tops="f") + layer("Pooling", "pooling_param { kernel_size: 2 }", "f"),
        "2 dimensions, and not 4",
    ),
    "statistics of the batch": (
        layer("BatchNorm", "batch_norm_param { use_global_stats: false }"),
        "statistics of its batch",
    ),
    "one number for all": (layer("Power", "power_param { power: 0 }"), "one number whatever it reads"),
    "a base of 1": (layer("Log", "log_param { base: 1 }"), "base 1"),
    "a base below 0": (layer("Exp", "exp_param { base: -2 }"), "base -2"),
    "half a clip": (layer("Clip", "clip_param { min: 0 }"), "it needs min and max"),
    "different shapes": (PAIR + layer("Eltwise", "", "a b"), "its bottoms have different shapes"),
    "coefficients of a product": (
        layer("Eltwise", "eltwise_param { operation: PROD coeff: [1, 2] }", "x x"),
        "2 coefficients for 2 bottoms and the operation PROD",
    ),
    "an even neighbourhood": (layer("LRN", "lrn_param { local_size: 4 }"), "local_size 4"),
    "two sizes that are left over": (layer("Reshape", "reshape_param { shape { dim: [-1, -1] } }"), "dimensions"),
    "a size that does not fit": (layer("Reshape", "reshape_param { shape { dim: [5, -1] } }"), "its inputs do not fit"),
    "no size": (layer("Reshape"), "it gives no dimensions"),
    "a size of no axis": (layer("Reshape", "reshape_param { shape { dim: [2, 3, 6, 7, 0] } }"), "keep an axis"),
    "axes backward": (layer("Flatten", "flatten_param { axis: 2 end_axis: 1 }"), "axes 2 to 1"),
    "an axis twice": (layer("Permute", "permute_param { order: [0, 0] }"), r"order \[0, 0\]"),
    "uneven parts": (layer("Slice", tops="a b"), "3 in 2 parts"),
    "points backward": (layer("Slice", "slice_param { axis: 2 slice_point: [4, 2] }", tops="a b c"), "6 in 3 parts"),
    "two names of an axis": (layer("Concat", "concat_param { axis: 1 concat_dim: 1 }", "x x"), "concat_dim is 1"),
    "shapes that do not join": (PAIR + layer("Concat", "concat_param { axis: 2 }", "a b"), "its inputs do not fit"),
    "a crop beyond": (PAIR + layer("Crop", "crop_param { axis: 1 offset: [3, 0, 0] }", "x a"), "does not lie in"),
    "no tiles": (layer("Tile"), "0 tiles"),
    "groups of channels": (layer("ShuffleChannel", "shuffle_channel_param { group: 2 }"), "2 groups of"),
    "a size of nobody": (layer("Interp"), "it gives no size"),
    "pads above 0": (layer("Interp", "interp_param { zoom_factor: 2 pad_beg: 1 }"), "pads 1 and 0"),
    "unpooling": (layer("Upsample", "upsample_param { scale: 2 }", "x x"), "it puts maxima back"),
    "more than there are": (layer("ArgMax", "argmax_param { axis: 1 top_k: 4 }"), "the 4 largest of 3"),
    "a scale beyond the axes": (layer("Scale", "scale_param { num_axes: 4 }"), "4 axes from axis 1 on of 4"),
    "a factor that does not fit": (PAIR + layer("Scale", "scale_param { axis: 0 }", "x a"), "does not fit"),
    "no box": (layer("PriorBox", bottoms="x x"), r"min_size \[\]"),
    "sizes in disorder": (layer("PriorBox", "prior_box_param { min_size: 8 max_size: 4 }", "x x"), "max_size"),
    "three variances": (layer("PriorBox", "prior_box_param { min_size: 8 variance: [1, 1, 1] }", "x x"), "variance"),
    "a flat ratio": (layer("PriorBox", "prior_box_param { min_size: 8 aspect_ratio: 0 }", "x x"), "aspect_ratio 0"),
    "two image sizes": (
        layer("PriorBox", "prior_box_param { min_size: 8 img_h: 4 img_w: 4 img_size: 4 }", "x x"),
        "one of the two",
    ),
    "boxes of FaceBoxes": (
        layer("PriorBox", "prior_box_param { fixed_size: 8 density: 2 }", "x x"),
        "not known here: fixed_size",
    ),
    "a slope of no channels": (VECTOR + layer("PReLU", "", "v"), "'v' has 1 dimensions, and not at least 2"),
    "a normalized vector": (VECTOR + layer("BatchNorm", "", "v"), "'v' has 1 dimensions, and not at least 2"),
    "a norm of a vector": (VECTOR + layer("Normalize", "", "v"), "'v' has 1 dimensions, and not at least 2"),
    "a mean of a matrix": (layer("Flatten", tops="f") + layer("MVN", "", "f"), "'f' has 2 dimensions"),
    "boxes of a matrix": (
        layer("Flatten", tops="f") + layer("PriorBox", "prior_box_param { min_size: 8 }", "f x"),
        "'f' has 2 dimensions, and not 4",
    ),
    "boxes in a matrix": (
        layer("Flatten", tops="f") + layer("PriorBox", "prior_box_param { min_size: 8 }", "x f"),
        "'f' has 2 dimensions, and not 4",
    ),
    "boxes in no image": (layer("PriorBox", "prior_box_param { min_size: 8 }", "x"), "it needs 2 bottoms"),
    "a resized matrix": (layer("Flatten", tops="f") + layer("Upsample", "", "f"), "'f' has 2 dimensions, and not 4"),
    "a size of 0": (layer("Interp", "interp_param { height: 0 width: 3 }"), "the size 0 x 3"),
    "a factor of 0": (layer("Interp", "interp_param { zoom_factor: 0 }"), "zoom factor 0"),
    "a scale of 0": (layer("Upsample", "upsample_param { scale: 0 }"), "scale 0"),
    "a crop like a matrix": (layer("Flatten", tops="f") + layer("Crop", "", "x f"), "from axis 2 on"),
    "a table without rows": (layer("Embed", "embed_param { num_output: 3 }"), "0 rows of 3"),
    "factors of other channels": (PAIR + layer("Axpy", "", "a x x"), "factors"),
    "bottoms of other channels": (
        PAIR + layer("Convolution", f"convolution_param {{ {CONV} }}", "x a", "y z"),
        "different numbers of channels",
    ),
    "layers behind detections": (
        net("", 1, 8, name="l")
        + net("", 1, 4, name="c")
        + layer("PriorBox", "prior_box_param { min_size: 4 }", "q q", "p")
        + net("", 1, 1, 1, 2, name="q")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2 }", "l c p", "d")
        + layer("InnerProduct", "inner_product_param { num_output: 2 }", "d"),
        "the shape of 'd' is known at run time only",
    ),
    "no candidates": (
        net("", 1, 8, name="l")
        + net("", 1, 4, name="c")
        + net("", 1, 1, 1, 2, name="q")
        + layer("PriorBox", "prior_box_param { min_size: 4 }", "q q", "p")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2 nms_param { top_k: 0 } }", "l c p"),
        "top_k 0",
    ),
    "many images": (
        net("", 17, 8, name="l")
        + net("", 17, 4, name="c")
        + net("", 1, 1, 1, 2, name="q")
        + layer("PriorBox", "prior_box_param { min_size: 4 }", "q q", "p")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2 }", "l c p"),
        "17 images with 2 priors",
    ),
    "boxes without an extent": (
        net("", 1, 8, name="l")
        + net("", 1, 4, name="c")
        + net("", 1, 1, 1, 2, name="q")
        + layer("PriorBox", "prior_box_param { min_size: 4 img_size: 1 step: 100 clip: true }", "q q", "p")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2 code_type: CENTER_SIZE }", "l c p"),
        "a prior box is empty",
    ),
    "a falling overlap": (detect("num_classes: 2", "eta: 0.9", "p"), "its overlap falls"),
    "another suppression": (
        detect("num_classes: 2", "soft: 1", "p"),
        "nms_param has a field that is not known here: soft",
    ),
    "boxes in pixels": (detect("num_classes: 2 normalized_bbox: false", "", "p"), "its boxes are in pixels"),
    "a fourth bottom": (detect("num_classes: 2", "", "p x"), "its fourth bottom 'x'"),
    "other counts": (detect("num_classes: 2", "", "p"), "boxes for 2 images"),
    "boxes at run time": (
        layer("Reshape", "reshape_param { shape { dim: [1, 2, 126] } }", tops="p")
        + layer("Slice", "slice_param { axis: 2 slice_point: 124 }", "p", "q r")
        + layer("Slice", "slice_param { axis: 1 slice_point: 1 }", "q", "l s")
        + layer("Slice", "slice_param { axis: 2 slice_point: 62 }", "s", "c d")
        + layer("DetectionOutput", "detection_output_param { num_classes: 2 }", "l c q"),
        "known at run time only",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_layer_is_refused_with_its_line_and_the_reason(name: str, tmp_path: Path) -> None:
    layers, sentence = REFUSED[name]
    ones = np.ones(3)
    weights: dict[str, Blobs] = {"convolution": (W, B), "batchnorm": (ones, ones, ones[:1]), "scale": (ones,)}
    weights |= dict.fromkeys(("prelu", "normalize", "embed", "innerproduct"), (ones,))
    path = save(tmp_path, net(layers), weights)
    with pytest.raises(ModelError, match=sentence) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} line ")
    assert "layer '" in caught.value.where


def test_all_layers_that_cannot_be_translated_are_named(tmp_path: Path) -> None:
    text = net(layer("Magic", tops="a") + layer("Python", "", "a", "b") + layer("Data", bottoms="", tops="c"))
    with pytest.raises(ModelError, match=r"neither can 'python' \(Python\), 'data' \(Data\)") as caught:
        read(save(tmp_path, text))
    assert "line 3: layer 'magic' (Magic)" in caught.value.where


def test_a_small_description_cannot_ask_for_all_memory(tmp_path: Path) -> None:
    text = net(layer("PriorBox", f"prior_box_param {{ {'min_size: 8 ' * 60} }}", "x x"), 1, 1, 1000, 1000)
    with pytest.raises(ModelError, match="numbers that are in no file"):
        read(save(tmp_path, text))
