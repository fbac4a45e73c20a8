"""What files of TensorFlow and Keras may not do, found in plain data."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from converter_lite.formats.child import Refusal
from converter_lite.formats.tensorflow.child.trust import refuse_acting, refuse_code

DENSE = {
    "module": "keras.layers",
    "class_name": "Dense",
    "config": {
        "name": "dense",
        "activation": "relu",
        "kernel_initializer": {
            "module": "keras.initializers",
            "class_name": "Zeros",
            "config": {},
            "registered_name": None,
        },
        "dtype": {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}},
    },
    "registered_name": None,
    "build_config": {"input_shape": [None, 2]},
}
MODEL = {
    "module": "keras.src.models.functional",
    "class_name": "Functional",
    "config": {
        "layers": [DENSE],
        "args": [
            {"class_name": "__keras_tensor__", "config": {"shape": [None, 2]}},
            {"class_name": "__numpy__", "config": {}},
            [{"class_name": "__ellipsis__", "config": {}}, {"class_name": "__slice__", "config": {"start": 1}}],
        ],
    },
    "compile_config": {"loss": {"module": "somewhere", "class_name": "Loss", "config": {}}},
}


def model_with(part: Any) -> Any:
    model = copy.deepcopy(MODEL)
    model["config"]["layers"].append(part)  # type: ignore[index]
    return model


def test_models_of_keras_layers_are_read() -> None:
    refuse_code(MODEL)
    refuse_code({"class_name": "Sequential", "config": [{"class_name": "Dense", "config": {"name": "d"}}]})


CODE = {
    "Lambda": ({"module": "keras.layers", "class_name": "Lambda", "config": {"name": "odd"}}, "layer odd is a Lambda"),
    "Lambda of Keras 2": ({"class_name": "Lambda", "config": {"name": "odd"}}, "layer odd is a Lambda"),
    "bytecode": ({"class_name": "__lambda__", "config": {"value": "4wEAAA=="}}, "is a __lambda__"),
    "a function": ({"module": "builtins", "class_name": "function", "config": "exec"}, "is a function"),
    "a SavedModel": ({"module": "keras.layers", "class_name": "TFSMLayer", "config": {}}, "is a TFSMLayer"),
    "a pickle": (
        {"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {}},
        "is a TorchModuleWrapper",
    ),
    "another package": ({"module": "os", "class_name": "System", "config": {}}, "os.System"),
    "a part of its name": (
        {"module": "keras_evil.layers", "class_name": "Dense", "config": {}},
        "keras_evil.layers.Dense",
    ),
    "a function of Keras": ({"module": "keras.utils", "class_name": "get_file", "config": {}}, "keras.utils.get_file"),
    "the switch": (
        {"module": "keras.config", "class_name": "enable_unsafe_deserialization", "config": {}},
        "enable_unsafe_deserialization",
    ),
    "a class of builtins": ({"module": "builtins", "class_name": "eval", "config": "1"}, "builtins.eval"),
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("depth", ["layer", "within a layer", "in a list"])
def test_code_in_a_model_is_refused(name: str, depth: str) -> None:
    part, message = CODE[name]
    if depth == "within a layer":
        part = {**DENSE, "config": {"kernel_initializer": part}}
    elif depth == "in a list":
        part = {"outer": [[part]]}
    with pytest.raises(Refusal, match=message):
        refuse_code(model_with(part))


def test_configurations_of_any_form_are_walked() -> None:
    deep: Any = {"class_name": "Lambda"}
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Refusal):
        refuse_code(deep)
    odd: Any
    for odd in (None, 3, "text", [], {}, {"class_name": 5}, {"class_name": None, "module": 4}):
        refuse_code(odd)
    with pytest.raises(Refusal):
        refuse_code({"class_name": ""})


@dataclass
class Node:
    op: str
    name: str = "node"


ACTING = (
    "PyFunc",
    "PyFuncStateless",
    "EagerPyFunc",
    "ReadFile",
    "WriteFile",
    "MatchingFiles",
    "WholeFileReaderV2",
    "ReaderReadV2",
    "TFRecordDataset",
    "DatasetToTFRecord",
    "SaveDatasetV2",
    "WriteSummary",
    "CreateSummaryFileWriter",
    "InitializeTableFromTextFileV2",
    "PrintV2",
    "DebugIdentityV2",
    "Save",
    "Restore",
    "SaveSlices",
    "_Send",
    "_HostRecv",
    "CollectiveReduceV2",
    "RpcCall",
    "LoadAndRemapMatrix",
    "Abort",
)

COMPUTING = (
    "MatMul",
    "Conv2D",
    "ReadVariableOp",
    "VarHandleOp",
    "AssignVariableOp",
    "StatefulPartitionedCall",
    "While",
    "Identity",
    "Assert",
    "NoOp",
    "RandomUniform",
    "TensorListReserve",
    "ResourceGather",
    "Pack",
    "SparseSoftmaxCrossEntropyWithLogits",
    "ReverseV2",
    "RestoreV2",
)


@pytest.mark.parametrize("op", ACTING)
def test_nodes_that_act_are_refused(op: str) -> None:
    with pytest.raises(Refusal, match=rf"node bad \({op}\)"):
        refuse_acting([Node("MatMul"), Node(op, "bad")], storing=False)


@pytest.mark.parametrize("op", COMPUTING)
def test_nodes_that_compute_are_not(op: str) -> None:
    refuse_acting([Node(op)], storing=True)


@pytest.mark.parametrize("op", ["SaveV2", "MergeV2Checkpoints"])
def test_nodes_that_store_variables_are_refused_where_they_would_run(op: str) -> None:
    refuse_acting([Node(op)], storing=False)
    with pytest.raises(Refusal):
        refuse_acting([Node(op)], storing=True)
