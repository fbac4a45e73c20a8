"""TorchScript: an archive with code of its own, which PyTorch's interpreter runs.

The interpreter runs once under ``torch.export``, which records the operators that it calls. Loops and branches are taken as they
are for the shapes and numbers that were given; a branch that depends on the values of a tensor is refused by PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from converter_lite.formats.child import Answer, Refusal, Request, WrongUsage, last_line
from converter_lite.formats.pytorch.child.archive import Archive
from converter_lite.formats.pytorch.child.export import export
from converter_lite.formats.pytorch.child.samples import first_that_runs

TENSOR_ATTRIBUTE = re.compile(r"^  (\w+) : (?:Optional\[)?Tensor\b", re.MULTILINE)
OTHER_ATTRIBUTE = re.compile(r"^  (\w+) : (?:int|bool|float|str)\b", re.MULTILINE)

CLOSE = 1e-5
"""Largest difference between the first call and one whose state is zeros."""


@dataclass(frozen=True)
class Slot:
    """An attribute of a module within the script."""

    owner: Any
    name: str
    path: str

    def get(self) -> Any:
        """Its value."""
        return self.owner._c.getattr(self.name)

    def set(self, value: Any) -> None:
        """Give it another value."""
        self.owner._c.setattr(self.name, value)


@dataclass
class Call:
    """How ``forward`` is called.

    Attributes:
        names: Arguments that are tensors, in order.
        fixed: Arguments that are not, by position.
    """

    names: list[str]
    fixed: dict[int, Any]

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """All of them."""
        left = iter(tensors)
        count = len(self.names) + len(self.fixed)
        return [self.fixed[position] if position in self.fixed else next(left) for position in range(count)]


class Recorded(torch.nn.Module):
    """The script as a module whose parameters, buffers and state ``torch.export`` sees."""

    def __init__(self, script: Any, call: Call, weights: Sequence[Slot], state: Sequence[Slot]) -> None:
        super().__init__()
        self._script, self._call, self._weights, self._state = [script], call, list(weights), list(state)
        self._places: list[tuple[Any, str]] = []
        for slot in weights:
            holder: Any = self
            *parts, name = slot.path.split(".")
            for part in parts:
                if part not in holder._modules:
                    holder.add_module(part, torch.nn.Module())
                holder = holder._modules[part]
            holder.register_buffer(name, slot.get().detach())
            self._places.append((holder, name))

    def forward(self, *tensors: Any) -> Any:
        """Outputs, then the new state."""
        for slot, (holder, name) in zip(self._weights, self._places, strict=True):
            slot.set(holder._buffers[name])
        count = len(self._call.names)
        for slot, value in zip(self._state, tensors[count:], strict=True):
            slot.set(value)
        found = self._script[0](*self._call.arguments(tensors[:count]))
        return (*_flat(found), *(slot.get() for slot in self._state))


def answer(path: Path, archive: Archive, request: Request, folder: Path) -> Answer:
    """Convert a TorchScript.

    Raises:
        Refusal: It is not converted.
    """
    script = torch.jit.load(str(path), map_location="cpu").eval()
    _detach_data(script)
    call = _call(script, request.shapes)
    tensors, others = _slots(script, archive)
    with torch.no_grad(), torch.jit.optimized_execution(False):
        kept = [(slot, slot.get()) for slot in (*tensors, *others)]
        kept = [(slot, value.clone() if isinstance(value, torch.Tensor) else value) for slot, value in kept]
        shapes = {name: request.shapes[name] for name in call.names}
        with _restored(kept):
            samples, notes = first_that_runs(
                lambda values: script(*call.arguments(values)), shapes, script.parameters()
            )
        state, begins, constants = _state(script, call, samples, tensors, others, kept)
        weights = [slot for slot in tensors if slot not in state]
        with _restored(kept):
            for slot, value in constants:
                slot.set(value)
            outputs = _names(script(*call.arguments(samples)), [*call.names, *(slot.path for slot in state)])
        with _restored(kept):
            for slot, value in constants:
                slot.set(value)
            program = _program(Recorded(script, call, weights, state), (*samples, *begins))
    if state:
        said = ", ".join(f"{s.path} ({'x'.join(map(str, b.shape)) or '1'})" for s, b in zip(state, begins, strict=True))
        notes.append(
            f"the model keeps {said} from one call to the next: they are inputs, zeros for the first call, "
            "and outputs that end with _next"
        )
    states = [slot.path for slot in state]
    return export(
        program,
        folder,
        inputs=[*call.names, *states],
        outputs=[*outputs, *(f"{name}_next" for name in states)],
        notes=notes,
    )


def _detach_data(script: Any) -> None:
    """Make ``x.data`` in the code of all modules ``x.detach()``, which ``torch.export`` records and which has the same values."""
    for module in script.modules():
        for name in module._c._method_names():
            graph = module._c._get_method(name).graph
            pending = list(graph.nodes())
            while pending:
                node = pending.pop()
                pending += [inner for block in node.blocks() for inner in block.nodes()]
                if node.kind() == "prim::data":
                    detached = graph.create("aten::detach", [node.inputsAt(0)], 1)
                    detached.insertBefore(node)
                    detached.outputsAt(0).setType(node.outputsAt(0).type())
                    node.output().replaceAllUsesWith(detached.outputsAt(0))
                    node.destroy()


def _program(recorded: Any, samples: tuple[Any, ...]) -> Any:
    aten = torch.ops.aten
    try:
        program = torch.export.export(recorded, samples, strict=False)
        return program.run_decompositions(
            {aten._convolution.default: _convolution, aten._convolution.deprecated: _convolution}
        )
    except Exception as error:
        words = str(error)
        if "data-dependent" in words or "GuardOnDataDependent" in type(error).__name__:
            raise Refusal(
                "a branch or loop of its code depends on the values of a tensor",
                "export the network with torch.export, with torch.cond for the branch",
            ) from error
        if "Cannot access data pointer" in words:
            raise Refusal(
                "its code makes a tensor of a list of numbers, as torch.tensor([0, 3]) or y[:, [0, 3]] do",
                "keep the numbers in a buffer (register_buffer), or export the network itself with torch.export",
            ) from error
        raise Refusal(
            f"PyTorch cannot record it: {_said(words) or last_line(repr(error))}",
            "export the network itself: torch.export.save(torch.export.export(network, inputs), 'model.pt2')",
        ) from error


def _said(words: str) -> str:
    """The line of a message that tells what is wrong: the first one, and behind a traceback of TorchScript the last one."""
    if "Traceback of TorchScript" in words:
        return last_line(words)
    return next((line.strip()[:300] for line in words.splitlines() if line.strip()), "")


def _convolution(x: Any, weight: Any, bias: Any, *settings: Any) -> Any:
    """What tracing records for a convolution; the settings behind the seventh are for kernels."""
    return torch.ops.aten.convolution.default(x, weight, bias, *settings[:6])


def _call(script: Any, shapes: Mapping[str, Sequence[int]]) -> Call:
    """How to call it with these shapes; the shape of a whole number is its value.

    Raises:
        WrongUsage: Something is missing, or does not fit.
        Refusal: It takes something else than tensors and numbers.
    """
    arguments = list(script._c._get_method("forward").schema.arguments)[1:]
    known = [argument.name for argument in arguments]
    for name in shapes:
        if name not in known:
            raise WrongUsage(f"the model has no input '{name}'", f"known are {', '.join(known)}")
    missing = [a.name for a in arguments if a.name not in shapes and not a.has_default_value()]
    call = Call([], {})
    for position, argument in enumerate(arguments):
        kind = str(argument.type)
        if argument.name not in shapes and argument.has_default_value():
            call.fixed[position] = argument.default_value
        elif kind in ("Tensor", "Optional[Tensor]"):
            call.names.append(argument.name)
        elif kind in ("int", "Optional[int]", "bool"):
            value = shapes.get(argument.name, [0])
            if len(value) != 1:
                raise WrongUsage(f"'{argument.name}' is a number, not a tensor", f"--inputShape={argument.name}:1")
            call.fixed[position] = bool(value[0]) if kind == "bool" else value[0]
        else:
            raise Refusal(
                f"its input '{argument.name}' is a {kind}", "save a network that takes tensors and whole numbers"
            )
    if missing:
        example = ";".join(
            f"{a.name}:{'1,...' if 'Tensor' in str(a.type) else '16000'}" for a in arguments if a.name in missing
        )
        raise WrongUsage(
            f"a TorchScript does not say the shapes of its inputs, nor the values of whole numbers ({', '.join(missing)})",
            f"give them: --inputShape='{example}'",
        )
    if not call.names:
        raise Refusal("it takes no tensor", "save a network that takes tensors")
    return call


def _slots(script: Any, archive: Archive) -> tuple[list[Slot], list[Slot]]:
    """Attributes of all modules: tensors, and plain values."""
    code = list(archive.code())
    names = sorted({name for text in code for name in TENSOR_ATTRIBUTE.findall(text)})
    plain = sorted({name for text in code for name in OTHER_ATTRIBUTE.findall(text)} - {"training"})
    tensors, others, seen = [], [], set()
    for path, module in script.named_modules():
        for name in (*names, *plain):
            if not module._c.hasattr(name):
                continue
            slot = Slot(module, name, f"{path}.{name}" if path else name)
            value = slot.get()
            if isinstance(value, torch.Tensor) and slot.path not in seen:
                seen.add(slot.path)
                tensors.append(slot)
            elif isinstance(value, (int, float, bool, str)) and _may_change(slot, value):
                others.append(slot)
    return tensors, others


def _may_change(slot: Slot, value: Any) -> bool:
    try:
        slot.set(value)
    except RuntimeError:  # a constant
        return False
    return True


def _state(
    script: Any, call: Call, samples: list[Any], tensors: list[Slot], others: list[Slot], kept: list[tuple[Slot, Any]]
) -> tuple[list[Slot], list[Any], list[tuple[Slot, Any]]]:
    """Tensors that calls change, with zeros of the shapes that they come to have, and plain values as they are then.

    Raises:
        Refusal: The state does not settle, or zeros are another beginning than the file's.
    """
    before = dict(kept)
    with _restored(kept):
        first = _flat(script(*call.arguments(samples)))
        first = [value.clone() if isinstance(value, torch.Tensor) else value for value in first]
        state = [slot for slot in tensors if not _same(slot.get(), before[slot])]
        if not state:
            return [], [], []
        settled = [slot.get().detach().clone() for slot in state]
        plain = [(slot, slot.get()) for slot in others if slot.get() != before[slot]]
        script(*call.arguments(samples))
        later = [slot for slot in tensors if slot not in state and not _same(slot.get(), before[slot])]
        if later or any(slot.get().shape != value.shape for slot, value in zip(state, settled, strict=True)):
            names = ", ".join(slot.path for slot in (later or state))
            raise Refusal(
                f"what it keeps between calls has no fixed shape ({names})", "give the state as inputs and outputs"
            )
        if any(slot.get() != value for slot, value in plain):
            raise Refusal("it counts its calls", "give the state as inputs and outputs")
    begins = [torch.zeros_like(value) for value in settled]
    with _restored(kept):
        for slot, value in (*zip(state, begins, strict=True), *plain):
            slot.set(value.clone() if isinstance(value, torch.Tensor) else value)
        second = _flat(script(*call.arguments(samples)))
    for one, two in zip(first, second, strict=True):
        if isinstance(one, torch.Tensor) and not torch.allclose(one, two, rtol=CLOSE, atol=CLOSE):
            raise Refusal(
                f"what it keeps between calls does not begin with zeros ({', '.join(slot.path for slot in state)})",
                "give the state as inputs and outputs",
            )
    return state, begins, plain


def _same(one: Any, two: Any) -> bool:
    return (
        isinstance(one, torch.Tensor)
        and one.shape == two.shape
        and one.dtype == two.dtype
        and bool(torch.equal(one, two))
    )


@contextmanager
def _restored(kept: list[tuple[Slot, Any]]) -> Iterator[None]:
    """Begin with attributes as the file has them, and leave them so."""
    _restore(kept)
    try:
        yield
    finally:
        _restore(kept)


def _restore(kept: list[tuple[Slot, Any]]) -> None:
    for slot, value in kept:
        slot.set(value.clone() if isinstance(value, torch.Tensor) else value)


def _flat(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [value for part in found for value in _flat(part)]
    if isinstance(found, dict):
        return [value for part in found.values() for value in _flat(part)]
    return [found]


def _names(found: Any, taken: Sequence[str]) -> list[str]:
    """Keys of a dictionary, else numbers; a key that is the name of an input, too, ends with ``_output``.

    Raises:
        Refusal: A result is no tensor.
    """
    flat = _flat(found)
    if not all(isinstance(value, torch.Tensor) for value in flat):
        raise Refusal("it gives something else than tensors", "save a network that gives tensors")
    if isinstance(found, dict) and len(found) == len(flat):
        return [f"{key}_output" if key in taken else str(key) for key in found]
    return ["output"] if len(flat) == 1 else [f"output_{number}" for number in range(len(flat))]
