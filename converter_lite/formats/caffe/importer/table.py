"""All layers that are translated, and those that are refused with a reason."""

from __future__ import annotations

from converter_lite.formats.caffe.importer import (
    activation,
    arithmetic,
    convolution,
    detection,
    linear,
    normalization,
    pooling,
    prior_box,
    resizing,
    shape,
)
from converter_lite.formats.caffe.importer.context import Kind
from converter_lite.formats.registration import joined

KINDS: dict[str, Kind] = joined(
    convolution.KINDS,
    pooling.KINDS,
    linear.KINDS,
    activation.KINDS,
    normalization.KINDS,
    arithmetic.KINDS,
    shape.KINDS,
    resizing.KINDS,
    prior_box.KINDS,
    detection.KINDS,
)
"""Type of a layer -> how it is translated."""

_DEPLOY = "convert the deploy.prototxt, whose data come from an Input layer"

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "Data",
            "ImageData",
            "HDF5Data",
            "MemoryData",
            "WindowData",
            "DummyData",
            "AnnotatedData",
            "VideoData",
        ),
        ("it reads training data", _DEPLOY),
    ),
    **dict.fromkeys(
        (
            "Accuracy",
            "ContrastiveLoss",
            "EuclideanLoss",
            "HingeLoss",
            "InfogainLoss",
            "MultinomialLogisticLoss",
            "SigmoidCrossEntropyLoss",
            "SoftmaxWithLoss",
            "MultiBoxLoss",
            "SmoothL1Loss",
            "SegAccuracy",
            "DetectionEvaluate",
            "HDF5Output",
        ),
        ("it is for training", _DEPLOY),
    ),
    "Python": ("it runs a program of its own", "cut the network before it, and run the program on the outputs"),
    **dict.fromkeys(
        ("Proposal", "ROIPooling", "PSROIPooling", "ROIAlign"),
        ("regions that are known at run time only", "cut the network before it"),
    ),
    **dict.fromkeys(
        ("Yolov3DetectionOutput", "YoloDetectionOutput", "YoloV3DetectionOutput", "Region", "Yolo", "Reorg"),
        (
            "detections of YOLO have no definition that forks share",
            "cut the network before it, and decode in the application",
        ),
    ),
    **dict.fromkeys(
        ("BN", "SyncBN"),
        ("forks store its statistics in different ways", "save the network with BatchNorm and Scale layers"),
    ),
    **dict.fromkeys(
        ("LSTM", "RNN", "Recurrent", "LSTMUnit"),
        (
            "it keeps its state from one call to the next, which no graph does",
            "build it in another framework with these weights, and export that",
        ),
    ),
    "BatchReindex": ("images that are picked at run time are not translated", "cut the network before it"),
    "Filter": ("images that are picked at run time are not translated", "cut the network before it"),
    "SPP": ("spatial pyramids are not translated", "write it as Pooling, Flatten and Concat layers"),
    "Im2col": ("it is a part of convolutions", "use a Convolution layer"),
    "Parameter": ("weights without a layer are not translated", "use a layer that has them, Scale or Bias"),
}
"""Type of a layer -> why it is not translated, and what to do."""
