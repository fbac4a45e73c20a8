"""Erfc, with which Keras writes Gelu, and which ONNX does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def spell_out_erfc(graph: Any) -> None:
    """Make each Erfc(x) of a GraphDef 1 - Erf(x)."""
    for node in [node for node in graph.node if node.op == "Erfc"]:
        dtype = node.attr["T"].type
        one, error = graph.node.add(), graph.node.add()
        one.name, one.op = f"{node.name}/one", "Const"
        one.attr["dtype"].type = dtype
        one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.array(1, tf.dtypes.as_dtype(dtype).as_numpy_dtype)))
        error.name, error.op = f"{node.name}/erf", "Erf"
        error.input.extend(node.input)
        error.attr["T"].type = dtype
        node.op = "Sub"
        del node.input[:]
        node.input.extend([one.name, error.name])
