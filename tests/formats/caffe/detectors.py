"""SSD's own layers: boxes, and detections that are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.networks import layer, net
from tests.support import normal

Array = NDArray[Any]

PLACES, IMAGE = (3, 4), (30, 32)
PRIORS = {
    "sizes": ("min_size: 8", {"smallest": [8]}),
    "two sizes, ratios": (
        "min_size: 8 min_size: 12 max_size: 14 max_size: 20 aspect_ratio: 2 aspect_ratio: 3",
        {"smallest": [8, 12], "largest": [14, 20], "ratios": [2, 3]},
    ),
    "not flipped, clipped, four variances": (
        "min_size: 9 aspect_ratio: 2 flip: false clip: true variance: [0.1, 0.1, 0.2, 0.2]",
        {"smallest": [9], "ratios": [2], "flip": False, "clip": True, "variance": [0.1, 0.1, 0.2, 0.2]},
    ),
    "ratios that are there already": (
        "min_size: 8 aspect_ratio: 1 aspect_ratio: 2 aspect_ratio: 0.5 aspect_ratio: 2 variance: 0.3",
        {"smallest": [8], "ratios": [1, 2, 0.5, 2], "variance": [0.3]},
    ),
    "steps, image, offset": (
        "min_size: 8 step_h: 9 step_w: 7 img_h: 40 img_w: 50 offset: 0",
        {"smallest": [8], "step": [9, 7], "image": (40, 50), "offset": 0},
    ),
    "one step, one image size": (
        "min_size: 8 step: 6 img_size: 36",
        {"smallest": [8], "step": [6, 6], "image": (36, 36)},
    ),
    "sizes that are cut": ("min_size: 8.75 max_size: 15.5", {"smallest": [8.75], "largest": [15.5]}),
}
"""Name -> parameters, and the same for NumPy."""


def prior_text(parameters: str) -> str:
    """A description whose output ``y`` is boxes; its first layer makes the network read its input."""
    return (
        net(layer("ReLU", tops="r"), 1, 2, *IMAGE)
        + layer("Pooling", "pooling_param { kernel_size: 10 stride: 10 round_mode: FLOOR }", "r", "p")
        + layer(
            "Pooling", "pooling_param { kernel_h: 1 kernel_w: 3 stride_h: 1 stride_w: 1 pad_w: 2 pad_h: 0 }", "p", "f"
        )
        + layer("PriorBox", f"prior_box_param {{ {parameters} }}", "f x", "y")
    )


DETECTIONS: dict[str, dict[str, Any]] = {
    "SSD": {"code": "CENTER_SIZE", "threshold": 0.3, "nms": 0.45, "top_k": 400, "keep": 200},
    "few candidates": {"code": "CENTER_SIZE", "threshold": 0.2, "nms": 0.45, "top_k": 7, "keep": 200},
    "few are kept": {"code": "CENTER_SIZE", "threshold": 0.1, "nms": 0.45, "top_k": 20, "keep": 5},
    "no limits": {"code": "CENTER_SIZE", "nms": 0.6},
    "every overlap is allowed": {"code": "CENTER_SIZE", "threshold": 0.3, "nms": 1.5, "keep": 40},
    "corners": {"code": "CORNER", "threshold": 0.3, "nms": 0.4, "keep": 30},
    "corners by size": {"code": "CORNER_SIZE", "threshold": 0.3, "nms": 0.3, "top_k": 10},
    "variances in the target": {"code": "CENTER_SIZE", "encoded": True, "threshold": 0.3, "top_k": 20},
    "corners, variances in the target": {"code": "CORNER", "encoded": True, "threshold": 0.3},
    "boxes of each class": {"code": "CENTER_SIZE", "shared": False, "threshold": 0.3, "top_k": 12, "keep": 9},
    "another background": {"code": "CENTER_SIZE", "background": 2, "threshold": 0.3, "keep": 20},
    "no background": {"code": "CENTER_SIZE", "background": -1, "threshold": 0.4},
    "two images": {"images": 2, "code": "CENTER_SIZE", "threshold": 0.3, "keep": 4},
    "three images, one with nothing": {"images": 3, "code": "CENTER_SIZE", "threshold": 0.3, "quiet": (1,)},
    "clipped": {"code": "CENTER_SIZE", "threshold": 0.2, "nms": 0.45, "keep": 60, "clip": True},
    "scores at the threshold, and many equal ones": {
        "code": "CENTER_SIZE",
        "threshold": 0.25,
        "top_k": 9,
        "keep": 12,
        "grid": 8,
    },
    "nothing": {"code": "CENTER_SIZE", "threshold": 0.99, "keep": 10},
    "nothing in two images": {"images": 2, "code": "CENTER_SIZE", "threshold": 0.3, "quiet": (0, 1)},
}
"""Name -> settings of a DetectionOutput layer."""

CLASSES, COUNT = 4, 24


def detector_text(settings: dict[str, Any]) -> str:
    """A description that reads offsets and scores, and computes ``y`` with boxes of its own."""
    images, shared = settings.get("images", 1), settings.get("shared", True)
    words = {
        "code_type": settings["code"],
        "share_location": "true" if shared else "false",
        "background_label_id": settings.get("background", 0),
        "variance_encoded_in_target": "true" if settings.get("encoded") else "false",
        **({"clip": "true"} if settings.get("clip") else {}),
        **({"keep_top_k": settings["keep"]} if "keep" in settings else {}),
        **({"confidence_threshold": settings["threshold"]} if "threshold" in settings else {}),
    }
    nms = f"nms_threshold: {settings['nms']}" if "nms" in settings else ""
    nms += f" top_k: {settings['top_k']}" if "top_k" in settings else ""
    parameters = " ".join(f"{name}: {value}" for name, value in words.items())
    inputs = {
        "loc": (images, COUNT * 4 * (1 if shared else CLASSES)),
        "conf": (images, COUNT * CLASSES),
        "image": (1, 3, *IMAGE),
        "map": (1, 2, *PLACES),
    }
    head = "".join(
        f'input: "{name}" input_shape {{ {" ".join(f"dim: {size}" for size in shape)} }}\n'
        for name, shape in inputs.items()
    )
    boxes = "prior_box_param { min_size: 9 aspect_ratio: 2 flip: false clip: false variance: [0.1, 0.1, 0.2, 0.2] }"
    return (
        head
        + layer("PriorBox", boxes, "map image", "prior")
        + layer(
            "DetectionOutput",
            f"detection_output_param {{ num_classes: {CLASSES} {parameters} nms_param {{ {nms} }} }}",
            "loc conf prior",
        )
    )


def detector_feed(settings: dict[str, Any]) -> dict[str, Array]:
    """Offsets and scores with ties; images that are quiet have scores of zero."""
    images, classes = settings.get("images", 1), 1 if settings.get("shared", True) else CLASSES
    rng = np.random.default_rng(3)
    scores = np.round(rng.random((images, COUNT * CLASSES)) ** 2, 2).astype(np.float32) * np.float32(0.95)
    if "grid" in settings:
        scores = np.round(scores * settings["grid"]) / np.float32(settings["grid"])
    scores[list(settings.get("quiet", ()))] = 0
    return {
        "loc": normal(images, COUNT * 4 * classes, seed=11),
        "conf": scores,
        "image": np.zeros((1, 3, *IMAGE), np.float32),
        "map": np.zeros((1, 2, *PLACES), np.float32),
    }


def detected(settings: dict[str, Any]) -> Array:
    """What Caffe gives."""
    feed = detector_feed(settings)
    priors = caffe.prior_box(PLACES, IMAGE, smallest=[9], ratios=[2], flip=False, variance=[0.1, 0.1, 0.2, 0.2])
    options = {name: value for name, value in settings.items() if name not in ("images", "quiet", "grid")}
    return caffe.detection_output(feed["loc"], feed["conf"], priors, classes=CLASSES, **options)


def ssd() -> tuple[str, dict[str, tuple[Array, ...]]]:
    """A whole detector with two feature maps, in the words of MobileNet-SSD, and its weights."""
    rng = np.random.default_rng(7)
    weights: dict[str, tuple[Array, ...]] = {}
    text = net("", 1, 3, 64, 64, name="data")

    def conv(name: str, bottom: str, size: int, depth: int, *, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        fan = depth // group * kernel * kernel
        weights[name] = (rng.normal(0, np.sqrt(2 / fan), (size, depth // group, kernel, kernel)),)
        pad = kernel // 2
        words = f"num_output: {size} bias_term: false pad: {pad} kernel_size: {kernel} stride: {stride} group: {group}"
        return layer("Convolution", f"convolution_param {{ {words} engine: CAFFE }}", bottom, name, name)

    def block(name: str, bottom: str, size: int, depth: int, **options: int) -> str:
        weights[f"{name}/bn"] = (rng.normal(0, 0.1, size), rng.uniform(0.5, 1.5, size), np.array([1.0]))
        weights[f"{name}/scale"] = (rng.uniform(0.8, 1.2, size), rng.normal(0, 0.1, size))
        made = conv(name, bottom, size, depth, **options) + layer("BatchNorm", "", name, name, f"{name}/bn")
        made += layer("Scale", "scale_param { bias_term: true }", name, name, f"{name}/scale")
        return made + layer("ReLU", "", name, name, f"{name}/relu")

    def head(name: str, kind: str, size: int, depth: int) -> str:
        weights[f"{name}_{kind}"] = (rng.normal(0, 0.2, (size, depth, 1, 1)), rng.normal(0, 0.1, size))
        made = layer(
            "Convolution",
            f"convolution_param {{ num_output: {size} kernel_size: 1 }}",
            name,
            f"{name}_{kind}",
            f"{name}_{kind}",
        )
        made += layer(
            "Permute",
            "permute_param { order: [0, 2, 3, 1] }",
            f"{name}_{kind}",
            f"{name}_{kind}_perm",
            f"{name}_{kind}_perm",
        )
        return made + layer(
            "Flatten", "flatten_param { axis: 1 }", f"{name}_{kind}_perm", f"{name}_{kind}_flat", f"{name}_{kind}_flat"
        )

    text += (
        block("conv0", "data", 8, 3, stride=2)
        + block("conv1/dw", "conv0", 8, 8, group=8)
        + block("conv1", "conv1/dw", 16, 8, kernel=1)
    )
    text += layer("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", "conv1", "pool1", "pool1")
    text += block("conv2", "pool1", 16, 16, stride=2) + block("conv3", "conv2", 24, 16, stride=2)
    for name, depth, sizes in (("conv2", 16, "min_size: 12"), ("conv3", 24, "min_size: 24 max_size: 40")):
        count = 3 if "max" not in sizes else 4
        text += head(name, "loc", 4 * count, depth) + head(name, "conf", 5 * count, depth)
        words = f"{sizes} aspect_ratio: 2.0 flip: true clip: false variance: [0.1, 0.1, 0.2, 0.2] offset: 0.5"
        text += layer("PriorBox", f"prior_box_param {{ {words} }}", f"{name} data", f"{name}_prior", f"{name}_prior")
    text += layer("Concat", "concat_param { axis: 1 }", "conv2_loc_flat conv3_loc_flat", "mbox_loc", "mbox_loc")
    text += layer("Concat", "concat_param { axis: 1 }", "conv2_conf_flat conv3_conf_flat", "mbox_conf", "mbox_conf")
    text += layer("Concat", "concat_param { axis: 2 }", "conv2_prior conv3_prior", "mbox_prior", "mbox_prior")
    text += layer(
        "Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 5 } }", "mbox_conf", "conf_reshape", "conf_reshape"
    )
    text += layer("Softmax", "softmax_param { axis: 2 }", "conf_reshape", "conf_softmax", "conf_softmax")
    text += layer("Flatten", "flatten_param { axis: 1 }", "conf_softmax", "conf_flat", "conf_flat")
    words = "num_classes: 5 share_location: true background_label_id: 0 code_type: CENTER_SIZE "
    words += "keep_top_k: 100 confidence_threshold: 0.25"
    return text + layer(
        "DetectionOutput",
        f"detection_output_param {{ {words} nms_param {{ nms_threshold: 0.45 top_k: 100 }} }} include {{ phase: TEST }}",
        "mbox_loc conf_flat mbox_prior",
        "detection_out",
        "detection_out",
    ), {name: tuple(np.asarray(array, np.float32) for array in arrays) for name, arrays in weights.items()}
