"""What files of TensorFlow and Keras can make their framework do besides computing, found before the framework loads them.

Sources: TensorFlow's SECURITY.md (models are programs), Keras' guide on saving (Lambda layers, safe mode).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from converter_lite.formats.child import Refusal

ACTING = re.compile(
    r"""(Eager)?PyFunc(Stateless)?            # Python
      | ReadFile | WriteFile | MatchingFiles | FileSystemSetConfiguration
      | .*Reader(V2)? | Reader.* | RecordInput | ImportEvent | LoadAndRemapMatrix
      | .*Dataset.* | .*Summary.* | .*Snapshot.*
      | InitializeTableFromTextFile(V2)?
      | Print(V2)? | Debug.* | Abort
      | Save | SaveSlices | DistributedSave | Restore | RestoreSlice
      | _?(Host)?(Send|Recv) | Collective.* | .*Rpc.* | Remote.*
    """,
    re.VERBOSE,
)
"""Operators that start Python, touch files other than the variables, or speak to other processes."""

STORING = re.compile(r"SaveV2|MergeV2Checkpoints")
"""Operators that write files; every SavedModel has them to be saved again, and none to be loaded."""

UNSAFE_HINT = "--allowUnsafeModels runs it all the same, if you trust the model"

CLASS_MODULES = re.compile(
    r"(keras|tf_keras|tensorflow\.keras)"
    r"(\.src)?(\.(layers|models|initializers|regularizers|constraints|activations|dtype_policies|ops|engine|quantizers)\b.*)?"
    r"|builtins"
)
"""Where the objects of a configuration come from; Keras imports whatever module a file names."""

RUNNING_CLASSES = ("Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "__lambda__", "function")
"""Objects of Keras that hold code, or name a file with code."""

PLAIN_CLASSES = ("__tensor__", "__numpy__", "__keras_tensor__", "__bytes__", "__ellipsis__", "__slice__")
"""Values that Keras writes as objects: numbers, and places as in ``x[..., 1:]``."""

IGNORED_KEYS = ("compile_config",)
"""Parts of a configuration that are not loaded."""


def refuse_acting(nodes: Iterable[Any], *, storing: bool) -> None:
    """Refuse nodes that do more than compute.

    Args:
        nodes: NodeDefs.
        storing: Those that write variables count, too.

    Raises:
        Refusal: There is one.
    """
    for node in nodes:
        if ACTING.fullmatch(node.op) or (storing and STORING.fullmatch(node.op)):
            raise Refusal(
                f"node {node.name} ({node.op}) does more than compute: it can run code, or read and write files",
                UNSAFE_HINT,
            )


def refuse_code(config: Any, where: str = "the model") -> None:
    """Refuse objects in the configuration of a Keras model that are code, or come from outside Keras.

    Raises:
        Refusal: There is one.
    """
    for name, module, owner in _objects(config, where):
        if name in RUNNING_CLASSES:
            raise Refusal(f"{owner} is a {name}: it holds code, which Keras would run", UNSAFE_HINT)
        if not CLASS_MODULES.fullmatch(module) or not name[:1].isupper():
            raise Refusal(
                f"{owner} is {module}.{name}, which is no part of Keras: loading it would run that code",
                "save the model with layers of Keras alone, or as a SavedModel",
            )


def _objects(config: Any, owner: str) -> Iterator[tuple[str, str, str]]:
    """Class, module, and the layer that has it, of everything that a configuration makes."""
    pending: list[tuple[Any, str]] = [(config, owner)]
    while pending:
        part, owner = pending.pop()
        if isinstance(part, Mapping):
            name = part.get("class_name")
            own = part.get("config")
            label = own.get("name") if isinstance(own, Mapping) else None
            owner = f"layer {label}" if isinstance(label, str) else owner
            if isinstance(name, str) and name not in PLAIN_CLASSES:
                module = part.get("module")
                yield name, module if isinstance(module, str) and module else "keras", owner
            pending += [(value, owner) for key, value in part.items() if key not in IGNORED_KEYS]
        elif isinstance(part, list):
            pending += [(value, owner) for value in part]
