"""Archives in the forms of PyTorch, written by hand."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

NODE = {
    "name": "linear",
    "target": "torch.ops.aten.linear.default",
    "inputs": [{"name": "input", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
    "outputs": [{"as_tensor": {"name": "linear"}}],
    "metadata": {"stack_trace": "File 'net.py', line 1, in forward\n    return os.system(x)"},
}
WEIGHT = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": {"sizes": [{"as_int": 3}]}}


def program(node: Any = None, **more: Any) -> dict[str, Any]:
    """Description of a network with one node."""
    signature = {
        "input_specs": [
            {"parameter": {"arg": {"name": "p_weight"}, "parameter_name": "weight"}},
            {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
        ],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "linear"}}}}],
    }
    values = {
        "linear": {"sizes": [{"as_expr": {"expr_str": "Symbol('s64', positive=True, integer=True)", "hint": None}}]}
    }
    graph = {"inputs": [], "outputs": [], "nodes": [NODE if node is None else node], "tensor_values": values}
    return {
        "graph_module": {"graph": graph, "signature": signature},
        "torch_version": "2.13.0",
        "guards_code": [],
        **more,
    }


def save(path: Path, members: dict[str, bytes | str], prefix: str = "net/") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(prefix + name, content)
    return path


def exported(path: Path, described: Any = None, weight: Any = None, **more: bytes) -> Path:
    """A ``.pt2`` file; other members by name, with ``__`` for a slash."""
    text = (
        described if isinstance(described, (str, bytes)) else json.dumps(program() if described is None else described)
    )
    members: dict[str, bytes | str] = {
        "data/weights/weight_0": bytes(12),
        "data/weights/model_weights_config.json": json.dumps(
            {"config": {"weight": WEIGHT if weight is None else weight}}
        ),
        "data/constants/model_constants_config.json": json.dumps({"config": {}}),
        "models/model.json": text,
    }
    return save(path, {**members, **{name.replace("__", "/"): content for name, content in more.items()}})


CODE = """class Net(Module):
  weight : Tensor
  def forward(self: __torch__.Net,
    x: Tensor,
    times: int) -> Tensor:
    _0 = torch.add(torch.matmul(x, self.weight), ops.prim.device(x))
    {}
    return _0
"""


def scripted(path: Path, line: str = "pass") -> Path:
    """A TorchScript archive whose code has this line."""
    return save(
        path, {"data.pkl": b"", "code/__torch__.py": CODE.format(line), "data/0": bytes(4), "constants.pkl": b""}
    )


def saved(path: Path, content: Any) -> Path:
    """A file of ``torch.save``."""
    return save(path, {"data.pkl": pickle.dumps(content, protocol=2), "version": b"3"})


def artifact(content: Any) -> bytes:
    """What ``torch.save`` writes, in memory."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))
    return made.getvalue()


WEIGHTS = OrderedDict(weight=[1.0, 2.0])


class Bomb:
    """Unpickling it calls a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)
