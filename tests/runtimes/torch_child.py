"""Runs inside the environment of PyTorch: models of every kind, with what PyTorch computes for them.

usage: python torch_child.py FOLDER [SCRIPT]
Writes into FOLDER one model for each function in MODELS, and NAME.npz with its inputs (in_NAME) and outputs (out_NAME). Of SCRIPT
(silero_vad.jit) only the numbers of three calls in a row are written.
"""

import importlib
import json
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


def record(path, inputs, outputs):
    arrays = {f"in_{name}": value.numpy() for name, value in inputs.items()}
    arrays |= {f"out_{name}": value.detach().numpy() for name, value in outputs.items()}
    np.savez(path.with_name(f"{path.name}.npz"), **arrays)


def exported(path, network, inputs, dynamic=None):
    program = torch.export.export(network.eval(), tuple(inputs.values()), dynamic_shapes=dynamic)
    torch.export.save(program, path)
    found = network(*inputs.values())
    found = found if isinstance(found, tuple) else (found,)
    record(path, inputs, {f"#{number}": value for number, value in enumerate(found)})


class Block(nn.Module):
    def __init__(self, inside, outside, stride, expand):
        super().__init__()
        middle = inside * expand
        self.layers = nn.Sequential(
            nn.Conv2d(inside, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU6(),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=middle, bias=False),
            nn.BatchNorm2d(middle),
            nn.Hardswish(),
            nn.Conv2d(middle, outside, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.adds = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNet(nn.Module):
    """Inverted residuals, as in torchvision's mobilenet_v2, with weights and statistics of its own."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        shapes = [(16, 16, 1, 1), (16, 24, 2, 4), (24, 24, 1, 4), (24, 40, 2, 4), (40, 40, 1, 4)]
        self.blocks = nn.Sequential(*(Block(*shape) for shape in shapes))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(40, 10))
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 2)

    def forward(self, picture):
        return self.classifier(self.blocks(self.first(picture)).mean((2, 3)))


def mobilenet(folder):
    batch = {"picture": {0: torch.export.Dim("batch")}}
    exported(folder / "mobilenet.pt2", MobileNet(), {"picture": torch.randn(2, 3, 64, 64)}, batch)


class Recurrent(nn.Module):
    """An LSTM in both directions over embedded words, a layer of a transformer, and two outputs."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.layer = nn.TransformerEncoderLayer(12, 2, 16, batch_first=True, activation="gelu")

    def forward(self, ids, scale):
        rows = self.layer(self.lstm(self.words(ids))[0])
        return rows * scale, rows.argmax(-1)


def recurrent(folder):
    exported(folder / "recurrent.pt2", Recurrent(), {"ids": torch.randint(0, 20, (1, 7)), "scale": torch.rand(12)})


class Projected(nn.Module):
    """LSTM layers whose outputs are projected, and one that is not."""

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(6, 8, 2, proj_size=5, batch_first=True, bidirectional=True)
        self.second = nn.LSTM(10, 4, bias=False)

    def forward(self, rows):
        found, (state, cell) = self.first(rows)
        return self.second(found)[0], state, cell


def projected(folder):
    network, rows = Projected().eval(), torch.randn(1, 5, 6)
    exported(folder / "projected.pt2", network, {"rows": rows})
    torch.jit.trace(network, rows).save(str(folder / "projected.pt"))
    record(folder / "projected.pt", {"rows": rows}, {f"output_{n}": each for n, each in enumerate(network(rows))})


class Unchanged(nn.Module):
    """What goes in comes out again, beside a result."""

    def forward(self, x):
        return x, x * 2


def unchanged(folder):
    exported(folder / "unchanged.pt2", Unchanged(), {"x": torch.randn(2, 3)})


class Scripted(nn.Module):
    """Code with a loop, a branch on a number, a dictionary with the name of an input, and an optional input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.words = nn.Embedding(9, 4)

    def forward(
        self, ids: torch.Tensor, x: torch.Tensor, times: int, mask: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        for _ in range(times):
            x = torch.tanh(self.layer(x))
        if mask is not None:
            x = x * mask
        return {"sum": x + self.words(ids).sum(1), "last": x.data * 2, "x": x - 1}


def scripted(folder):
    network = Scripted().eval()
    torch.jit.script(network).save(str(folder / "scripted.pt"))
    inputs = {"ids": torch.randint(0, 9, (2, 3)), "x": torch.randn(2, 4)}
    found = network(inputs["ids"], inputs["x"], 3)
    found["x_output"] = found.pop("x")  # an input has the name
    record(folder / "scripted.pt", inputs, found)


class Written(nn.Module):
    """Writes numbers and fewer elements than there are places into parts of a tensor."""

    def forward(self, x):
        y = x * 2
        y[:, 0] = 0.5
        y[:, 1:3].copy_(x[0, 0])
        y[1:, 3].copy_(torch.argmax(x))
        return y


class Listed(nn.Module):
    """Writes to the rows of a list."""

    def forward(self, x):
        y = x * 2
        y[[0, 1]] = 0.5
        return y


def written(folder):
    torch.jit.script(Listed()).save(str(folder / "listed.pt"))
    x = torch.randn(2, 4, 3)
    torch.jit.script(Written()).save(str(folder / "written.pt"))
    record(folder / "written.pt", {"x": x}, {"output": Written()(x)})
    exported(folder / "written.pt2", Written(), {"x": x})


def other_floats(folder):
    """Layers whose numbers are exact in float16."""
    for name, kind in (("half.pt", torch.float16), ("double.pt", torch.float64)):
        network = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to(kind).eval()
        network[0].weight.data, network[0].bias.data = (
            part.data.mul(4).round().div(4) for part in network[0].parameters()
        )
        x = torch.randn(2, 4).mul(4).round().div(4).to(kind)
        torch.jit.script(network).save(str(folder / name))
        record(folder / name, {"input": x}, {"output": network(x)})


def traced(folder):
    network, picture = MobileNet().eval(), torch.randn(1, 3, 32, 32)
    script = torch.jit.trace(network, picture)
    script.save(str(folder / "traced.jit"))
    record(folder / "traced.jit", {"picture": picture}, {"output": network(picture)})


def fused(folder):
    """Attention as one operator, which a trace holds unless it is told otherwise."""
    layer, rows = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(1, 3, 8)
    torch.jit.trace(layer, rows).save(str(folder / "fused.pt"))


class Branch(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            x = -x
        return x


class Number(nn.Module):
    def forward(self, x):
        return None, 3, x * 2


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        self.seen.add_(x)
        return x * self.seen


class Writes(nn.Module):
    """Code that writes a file when it is loaded, and when it runs."""

    def __init__(self, mark: str):
        super().__init__()
        self.mark = mark

    def forward(self, x):
        torch.save(x, self.mark)
        return x


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


def changed(source, target, member, change):
    """A copy of an archive with one member changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, change(content) if name.endswith(member) else content)


def refused(folder):
    mark = folder / "executed"
    torch.jit.script(Branch()).save(str(folder / "branch.pt"))
    torch.export.save(torch.export.export(Counter(), (torch.ones(2),)), folder / "counter.pt2")
    torch.export.save(torch.export.export(Number(), (torch.ones(2),)), folder / "number.pt2")
    torch.jit.script(Counter()).save(str(folder / "counter.pt"))
    torch.jit.script(Writes(str(mark))).save(str(folder / "writes.pt"))
    torch.save(nn.Linear(2, 3).state_dict(), folder / "state.pth")
    torch.save(nn.Linear(2, 3), folder / "network.pt")
    torch.save(torch.fx.symbolic_trace(Counter()), folder / "counter.pth")
    torch.save({"bomb": Bomb(str(mark))}, folder / "bomb.pt")
    (folder / "old.pt").write_bytes(pickle.dumps(Bomb(str(mark))))
    good = folder / "good.pt2"
    torch.export.save(torch.export.export(nn.Linear(2, 3), (torch.ones(1, 2),)), good)
    torch.save((Bomb(str(mark)),), folder / "payload")
    payload = (folder / "payload").read_bytes()
    changed(good, folder / "sample.pt2", "data/sample_inputs/model.pt", lambda _: payload)

    def use_pickle(content):
        config = json.loads(content)
        for entry in config["config"].values():
            entry["use_pickle"] = True
        return json.dumps(config)

    def call_system(content):
        program = json.loads(content)
        node = program["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.hub.os.system"
        return json.dumps(program)

    changed(good, folder / "weights.pt2", "model_weights_config.json", use_pickle)
    changed(good, folder / "target.pt2", "models/model.json", call_system)
    size = f"__import__('pathlib').Path('{mark}').touch()"
    changed(
        good,
        folder / "size.pt2",
        "models/model.json",
        lambda c: c.replace(b'{"as_int": 1}', json.dumps({"as_expr": {"expr_str": size, "hint": None}}).encode()),
    )


class Quantized(nn.Module):
    """A convolution as PT2E quantization writes it."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.register_buffer("weight", torch.randint(-127, 128, (6, 4, 3, 3), generator=generator, dtype=torch.int8))
        self.register_buffer("scales", torch.linspace(0.002, 0.006, 6))
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))

    def forward(self, x):
        known = torch.ops.quantized_decomposed
        grid = (0.03125, 120, 0, 255, torch.uint8)
        x = known.dequantize_per_tensor(known.quantize_per_tensor(x, *grid), *grid)
        weight = known.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return torch.relu(nn.functional.conv2d(x, weight, padding=1))


class QuantizedAtRunTime(nn.Module):
    def forward(self, x):
        known = torch.ops.quantized_decomposed
        scale, zero = known.choose_qparams(x, 0, 255, 0.000244140625, torch.uint8)
        grid = (scale, zero, 0, 255, torch.uint8)
        return known.dequantize_per_tensor(known.quantize_per_tensor(x, *grid), *grid)


def quantized(folder):
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    exported(folder / "quantized.pt2", Quantized(), {"x": torch.randn(1, 4, 8, 8)})
    exported(folder / "at_run_time.pt2", QuantizedAtRunTime(), {"x": torch.randn(2, 3)})


MODELS = (
    mobilenet,
    recurrent,
    projected,
    unchanged,
    scripted,
    written,
    other_floats,
    traced,
    fused,
    refused,
    quantized,
)


def silero(path, folder):
    script = torch.jit.load(str(path)).eval()
    for number in range(3):
        x = torch.randn(1, 512)
        record(folder / f"call{number}", {"x": x}, {"output": script(x, 16000)})


def main(folder, scripts):
    with torch.no_grad():
        for path in scripts:
            silero(path, folder)
        for make in MODELS if not scripts else ():
            make(folder)


main(Path(sys.argv[1]), sys.argv[2:])
