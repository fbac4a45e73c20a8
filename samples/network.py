"""The sample network (PyTorch) and its ONNX form, in which every layer stays the node that it was trained as."""

from collections.abc import Iterable

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import nn

OPSET = 13
IR_VERSION = 8
"""Both are old enough for every onnxruntime that a device may have."""


class Unit(nn.Sequential):
    """Convolution, batch normalization and, unless it is a linear one, ReLU6."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> None:
        super().__init__()
        padding = kernel // 2
        self.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False))
        self.add_module("bn", nn.BatchNorm2d(outputs))
        if not linear:
            self.add_module("relu6", nn.ReLU6())


class Separable(nn.Sequential):
    """A depthwise convolution followed by a pointwise one."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.add_module("depthwise", Unit(inputs, inputs, 3, stride=stride, groups=inputs))
        self.add_module("pointwise", Unit(inputs, outputs, 1))


class Residual(nn.Sequential):
    """A separable convolution without final activation whose input is added to its output."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.add_module("depthwise", Unit(channels, channels, 3, groups=channels))
        self.add_module("pointwise", Unit(channels, channels, 1, linear=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` plus its correction."""
        return x + super().forward(x)


class ShapeNet(nn.Sequential):
    """Classifies pictures, input `(N, 3, 64, 64)` RGB in [-1, 1], output logits `(N, classes)`."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.add_module("stem", Unit(3, 16, 3, stride=2))
        self.add_module("block1", Separable(16, 32))
        self.add_module("block2", Separable(32, 64, stride=2))
        self.add_module("block3", Residual(64))
        self.add_module("block4", Separable(64, 128, stride=2))
        self.add_module("block5", Separable(128, 128))
        self.add_module("block6", Separable(128, 256))
        self.add_module("pool", nn.AdaptiveAvgPool2d(1))
        self.add_module("flatten", nn.Flatten())
        self.add_module("classifier", nn.Linear(256, classes))


def to_onnx(net: ShapeNet, size: int) -> onnx.ModelProto:
    """Return the network in evaluation mode as an ONNX model, batch normalization not folded into the convolutions.

    Nodes are named after the modules (`block3/depthwise/conv`), the input is `input`, the output `logits`.
    """
    graph = _GraphBuilder()
    graph.append(net, "", "input")
    graph.nodes[-1].output[0] = "logits"
    classes = net.get_submodule("classifier").get_parameter("bias").numel()
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "shapes",
            [helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["batch", 3, size, size])],
            [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", classes])],
            graph.initializers,
        ),
        producer_name="shapes-sample",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _GraphBuilder:
    """Collects the ONNX nodes and weights of modules in order of execution."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def append(self, module: nn.Module, name: str, source: str) -> str:
        """Add a module and everything inside it; return the name of its output tensor."""
        if isinstance(module, nn.Sequential):
            output = source
            for child_name, child in module.named_children():
                output = self.append(child, f"{name}/{child_name}".lstrip("/"), output)
            return self._node("Add", f"{name}/add", [source, output]) if isinstance(module, Residual) else output
        return self._layer(module, name, source)

    def _layer(self, module: nn.Module, name: str, source: str) -> str:
        if isinstance(module, nn.Conv2d):
            weight = self._weights(name, [("weight", module.weight)])
            padding, kernel = int(module.padding[0]), list(module.kernel_size)
            return self._node(
                "Conv",
                name,
                [source, *weight],
                kernel_shape=kernel,
                strides=list(module.stride),
                pads=[padding] * 4,
                group=module.groups,
            )
        if isinstance(module, nn.BatchNorm2d):
            state = module.state_dict()
            keys = ("weight", "bias", "running_mean", "running_var")
            parameters = self._weights(name, [(key, state[key]) for key in keys])
            return self._node("BatchNormalization", name, [source, *parameters], epsilon=module.eps)
        if isinstance(module, nn.ReLU6):
            lowest = self._constant(f"{name}/min", np.array(0, np.float32))
            highest = self._constant(f"{name}/max", np.array(6, np.float32))
            return self._node("Clip", name, [source, lowest, highest])
        if isinstance(module, nn.Linear):
            parameters = self._weights(name, [("weight", module.weight), ("bias", module.bias)])
            return self._node("Gemm", name, [source, *parameters], transB=1)
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return self._node("GlobalAveragePool", name, [source])
        if isinstance(module, nn.Flatten):
            return self._node("Flatten", name, [source])
        raise TypeError(f"{name}: no ONNX form for {type(module).__name__}")

    def _node(self, op_type: str, name: str, inputs: Iterable[str], **attributes: object) -> str:
        output = f"{name}/output"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def _weights(self, name: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
        return [self._constant(f"{name}/{key}", tensor.detach().numpy()) for key, tensor in tensors]

    def _constant(self, name: str, array: NDArray[np.float32]) -> str:
        self.initializers.append(numpy_helper.from_array(array, name))
        return name
