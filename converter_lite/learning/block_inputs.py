"""Tensors on the way through two networks, for samples that pass a block at a time.

Between blocks the tensors of all samples are kept, in half precision, where there is memory for them; otherwise they are computed
again from the last ones that are kept, at first the network's inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from converter_lite.learning.network import Network
from converter_lite.learning.training import Batch
from converter_lite.system.memory import return_freed_memory

BLOCK_INPUT_BYTES = 200 << 20
"""Memory for tensors between blocks, of both networks and all samples."""

LARGEST_HALF = 6e4
"""Largest magnitude that is kept in half precision."""


def stored(tensor: Tensor) -> Tensor:
    """A tensor in half precision if it is of floats that fit."""
    if tensor.dtype is not torch.float32 or not tensor.numel() or not bool(tensor.abs().amax() < LARGEST_HALF):
        return tensor
    return tensor.half()


def restored(parts: Batch) -> dict[str, Tensor]:
    """Stored tensors as they are computed with."""
    return {name: part.float() if part.dtype is torch.float16 else part for name, part in parts.items()}


class BlockInputs:
    """Both networks' tensors in front of the next block.

    Args:
        teacher, student: The networks.
        parts: Inputs by name, in parts whose samples are computed together.
        memory: Bytes that the process may hold before it gives back what it freed.
    """

    def __init__(self, teacher: Network, student: Network, parts: Iterable[Batch], memory: int) -> None:
        self._teacher, self._student = teacher, student
        self._memory = memory
        self._inputs = [{name: stored(tensor) for name, tensor in part.items()} for part in parts]
        self._known: list[dict[str, Tensor]] = [{} for _ in self._inputs]
        self._right: list[dict[str, Tensor]] = [{} for _ in self._inputs]

    @property
    def count(self) -> int:
        """Of parts."""
        return len(self._inputs)

    def read(self, index: int, names: Sequence[str]) -> dict[str, Tensor]:
        """Tensors of the student, and its inputs, for one part."""
        known = restored({**self._inputs[index], **self._known[index]})
        return {**restored(self._inputs[index]), **_computed(self._student, known, names)}

    def wanted(self, index: int, names: Sequence[str]) -> dict[str, Tensor]:
        """Tensors of the teacher for one part."""
        return _computed(self._teacher, restored({**self._inputs[index], **self._right[index]}), names)

    def move(self, names: Sequence[str], elements: int) -> None:
        """Keep these tensors instead of earlier ones, if there is memory for them.

        Args:
            names: All that later blocks read, apart from the networks' inputs.
            elements: Their elements in all samples.
        """
        if 2 * 2 * elements > BLOCK_INPUT_BYTES:
            return
        for index in range(len(self._inputs)):
            known, right = self.read(index, names), self.wanted(index, names)
            self._known[index] = {name: stored(known[name]) for name in names}
            self._right[index] = {name: stored(right[name]) for name in names}
            return_freed_memory(above=self._memory)


def _computed(network: Network, known: Batch, names: Sequence[str]) -> dict[str, Tensor]:
    was_training = network.training
    network.eval()
    with torch.no_grad():
        found = network.evaluate(known, names)
    network.train(was_training)
    return found
