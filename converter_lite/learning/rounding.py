"""``rounding=LEARNED``: a quantized network learns from the float one, block by block and then as a whole.

No labels: the float network is the teacher, on calibration samples, which are mirrored and cut where they are pictures. A part of
the samples is held out; what is returned is what came nearest to the teacher on them, in the graph that is written, and that is
the network as it was before if nothing came clearly nearer (:mod:`.judge`).

Sources: Nagel et al., Up or Down? Adaptive Rounding for Post-Training Quantization, ICML 2020 (soft integers, and what a layer
reads in the quantized network with what it gives in the float one as its goal); Li et al., BRECQ, ICLR 2021 (blocks); Wei et al.,
QDrop, ICLR 2022 (activations left unquantized at random); Esser et al., Learned Step Size Quantization, ICLR 2020 (steps); Hinton
et al., Distilling the Knowledge in a Neural Network, 2015.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from converter_lite.errors import ModelError
from converter_lite.learning.block_inputs import BLOCK_INPUT_BYTES, BlockInputs, restored, stored
from converter_lite.learning.blocks import Block, blocks_of, operations
from converter_lite.learning.front import front_of
from converter_lite.learning.grids import WeightGrid
from converter_lite.learning.judge import LIKELY, Judge
from converter_lite.learning.network import Network, Trainable
from converter_lite.learning.pace import STEP_SECONDS, THERE, seconds
from converter_lite.learning.readback import learned
from converter_lite.learning.training import (
    Batch,
    Goal,
    Optimizer,
    batches,
    distance,
    loss_of,
    rounding_regularizer,
    sizes_of_results,
)
from converter_lite.log import counted
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.held_out import split, times, with_copies
from converter_lite.quantization.pictures import changed, channel_axis
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.score import Score
from converter_lite.quantization.settings import Learning
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.system.memory import own_memory, return_freed_memory
from converter_lite.targets.operands import bias_of

THREADS = 2
"""Of PyTorch, whatever the machine has: sums in another order would give other bytes."""

SMALL_NODE = 3e5
"""Multiplications of a node, in the mean, below which one thread is as fast as two, and twice as fast beside other work."""

BLOCKS_SHARE = 0.5
"""Part of the time in which blocks learn by themselves."""

MOST_STEPS = 1000
"""Of a block."""

ROWS = 512
"""Results of a layer that a step of a block learns from: positions of all samples in a batch."""

BATCH_BYTES = 600 << 20
"""Memory for the tensors of a batch."""

BLOCK_BYTES = 150 << 20
"""Memory for what a block reads and gives, in half precision; with fewer samples where all need more."""

COPIES = 4
"""Times that a tensor of the teacher is in memory while the student learns: its own, gradients, rounding."""

LARGEST_BATCH = 16

LARGEST_BLOCK_BATCH = 64

BLOCK_TRAVEL, WHOLE_TRAVEL = 0.1, 0.03
"""Shares of the ways of :mod:`.training` that grids and biases can go: the fewer layers learn at once, the further."""

CHECKS = 8
"""Times that the held-out samples are looked at."""

PATIENCE = 4
"""Looks without a gain after which nothing more is learnt."""

INNER = 0.2
"""Weight of the inner tensors beside the outputs, in all."""

TINY = 1e-9
"""Least error that errors are relative to."""

DROPPED = 0.5
"""Share of the elements of activations of less than ``COARSE_BITS`` that blocks learn with unquantized."""

COARSE_BITS = 8

OVERDUE = 3
"""Multiple of the announced time after which it ends whatever is left."""


def learn_rounding(
    starts: Sequence[QuantizedModel], model: ir.Model, feeds: Sequence[Feed], wanted: Learning, context: RunContext
) -> QuantizedModel:
    """The quantized network, nearer to the float one on held-out samples if that could be learnt; otherwise one of ``starts``.

    Args:
        starts: The same network, quantized in several ways; it starts with the last one, or with another that is likely nearer.
        model: The float graph, with the same inputs and outputs.
        feeds: Calibration samples, at least two.
        wanted: Time, seed, and what may learn.
        context: Runs the graphs that are judged; its log receives the plan, the progress and the result.

    Raises:
        ModelError: There are no gradients of an operator in front of all layers; the node is named.
    """
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(THREADS)
    torch.manual_seed(wanted.seed)
    return_freed_memory()  # what fitted the rounding before
    front = front_of(model)
    try:
        lesson = _Lesson([front.of_quantized(s) for s in starts], front.of_model(model), feeds, wanted, context)
        found, start = lesson.run(), starts[lesson.number]
        return front.joined(found.quantized, start) if found.has_learnt else start
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


@dataclass(slots=True)
class _Best:
    """The best network so far, and how near it is to the float one."""

    quantized: QuantizedModel
    score: Score
    has_learnt: bool = False


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a block reads in the quantized network, and gives in the float one, for a sample; as it is stored."""

    known: Batch
    right: Batch


class _Lesson:
    def __init__(
        self,
        starts: Sequence[QuantizedModel],
        model: ir.Model,
        feeds: Sequence[Feed],
        wanted: Learning,
        context: RunContext,
    ) -> None:
        self.log = context.log
        self.wanted = wanted
        fitted, held_out = split(feeds)
        self.pictures = [dict(feed) for feed in fitted]
        self.samples = [_tensors(feed) for feed in fitted]
        self.judges = [_tensors(feed) for feed in held_out]
        self.judge = Judge(model, held_out, wanted.seed, context)
        found = [_Best(start, self.judge.score(start)) for start in starts]
        self.number = len(found) - 1
        for number in range(self.number):
            if self.judge.is_gain(found[self.number].score, found[number].score, LIKELY):
                self.number = number
        self.best = found[self.number]
        quantized = self.best.quantized
        is_free = wanted.grids
        trainable = Trainable(integers=False, weight_steps=is_free, activation_grids=is_free)
        self.teacher = Network(quantized.reference or model).eval()
        self.student = Network(quantized.model, quantized, trainable)
        self.graph = quantized.model.graph
        self.generator = torch.Generator().manual_seed(wanted.seed)
        self.draw = np.random.default_rng(wanted.seed)
        self.picture = channel_axis(self.pictures[0])
        self.elements = self._measured()
        self.blocks = blocks_of(self.graph, quantized.plan, self.elements)
        inner = [name for block in self.blocks for name in (*block.inputs, *block.outputs)]
        computed = [name for name in self.teacher.outputs if name in self.teacher.tensors]
        self.stacks = _can_stack(self.teacher, self.samples, [*computed, *dict.fromkeys(inner)])
        self.batch, self.seconds, self.node_work = self._sizes()
        self.memory = self._most_memory()
        self.deadline = float("inf")
        self.started_with = self.best.score

    def run(self) -> _Best:
        """Blocks, then the whole network, then the better of before and after."""
        torch.set_num_threads(THREADS if self.node_work > SMALL_NODE else 1)
        drawn = times(self.pictures) * len(self.pictures)
        for_blocks, total, announced = self._plan(drawn)
        self.deadline = time.monotonic() + OVERDUE * announced
        kinds = f"{counted(len(self.samples), 'sample')}{', mirrored and cut' if self.picture is not None else ''}"
        self.log.info(
            f"learning from the float network: {for_blocks} steps of {len(self.blocks)} blocks, {total} of {self.batch} of "
            f"{kinds}; about {announced:.0f} s on two cores and {self.memory / 2**20:.0f} MiB of memory"
        )
        self._say("before", self.started_with)
        biases = {
            str(bias.name): str(node.outputs[0].name)
            for node in self.graph
            if (bias := bias_of(node)) is not None and bias.name in self.student.biases
        }
        self.sizes = sizes_of_results(self.teacher, self.samples[0], biases)
        self.student.train()
        if for_blocks:
            before = {name: value.clone() for name, value in self.student.state_dict().items()}
            self._learn_blocks(drawn, for_blocks)
            if self._look("blocks").noise >= self.started_with.noise:
                self.student.load_state_dict(before)
        self._learn_whole(total)
        return self._finished()

    def _plan(self, samples: int) -> tuple[int, int, float]:
        """Steps of each block, and of the whole network, for the time that there is; and the time that they take.

        There are ``CHECKS`` steps at least, however long they take.
        """
        step = sum(map(self._block_seconds, self.blocks))
        left, for_blocks, spent = float(self.wanted.seconds), 0, 0.0
        if len(self.blocks) > 1:
            passing = samples * self.seconds * THERE
            for_blocks = max(min(int((left * BLOCKS_SHARE - passing) / step), MOST_STEPS), CHECKS)
            spent = passing + for_blocks * step
        step = STEP_SECONDS + self.seconds * self.batch
        total = max(int((left - spent) / step), CHECKS)
        return for_blocks, total, max(spent + total * step, left)

    def _most_memory(self) -> int:
        """Bytes that the process will hold: what it holds now, and either what blocks pass through or the tensors of a batch."""
        batch = 4 * COPIES * sum(self.elements.values()) * (self.batch if self.stacks else 1)
        return own_memory() + max(BLOCK_INPUT_BYTES + BLOCK_BYTES, batch)

    def _block_batch(self, block: Block) -> int:
        """Samples in a step of a block."""
        return min(max(round(ROWS / block.positions), 2), LARGEST_BLOCK_BATCH, len(self.samples)) if self.stacks else 1

    def _block_seconds(self, block: Block) -> float:
        """A step of a block."""
        elements = sum(self.elements.get(name, 0) for name in block.tensors)
        size, soft = self._block_batch(block), self._weights(block.weights)
        return STEP_SECONDS + seconds(size * block.work, size * elements, block.operations, soft=soft)

    def _weights(self, names: Iterable[str]) -> int:
        return sum(self.student.weights[name].steps.numel() for name in names if name in self.student.weights)

    def _finished(self) -> _Best:
        first, last = self.started_with, self.best.score
        if not self.best.has_learnt:
            self.log.warning(
                f"learning gained nothing that {self.judge.count} held-out samples tell from chance: the network is quantized "
                "without it, from all samples"
            )
        else:
            self.log.info(
                f"learnt: error {first.noise:.3g} -> {last.noise:.3g}, cosine {first.cosine:.6f} -> {last.cosine:.6f}, "
                f"largest error {first.error:.4g} -> {last.error:.4g} on {self.judge.count} held-out samples"
            )
        return self.best

    def _measured(self) -> dict[str, int]:
        """Elements of the tensors of a sample."""
        names = [str(value.name) for node in self.graph for value in node.outputs if value.name]
        with torch.no_grad():
            found = self.teacher.evaluate(self.samples[0], [name for name in names if name in self.teacher.tensors])
        return {name: tensor.numel() for name, tensor in found.items()}

    def _sizes(self) -> tuple[int, float, float]:
        """Samples in a batch, seconds that a step takes for each, and multiplications of a node in a step."""
        nodes = list(self.graph)
        results = [self.elements.get(str(node.outputs[0].name)) for node in nodes]
        work, elements = sum(map(multiplications, nodes, results)), sum(self.elements.values())
        batch = min(max(BATCH_BYTES // (4 * COPIES * max(elements, 1)), 1), LARGEST_BATCH, len(self.samples))
        together = batch if self.stacks else 1
        computed, weights = operations(nodes, self.elements), self._weights(self.student.weights)
        return batch, seconds(work, elements, computed / together, weights / together), work * together / computed

    def _learn_blocks(self, drawn: int, total: int) -> None:
        """Each block learns to give what it gives in the float network, from what the learnt blocks before it give.

        Args:
            drawn: Samples with their copies.
            total: Steps of a block.
        """
        for grid in self.student.activations.values():
            grid.drop = DROPPED if grid.params.spec.bits < COARSE_BITS else 0.0
        size = self.batch if self.stacks else 1
        judges = -(-len(self.judges) // size)
        copies = (_tensors(feed) for feed in with_copies(self.pictures, self.wanted.seed))
        parts = chain(_parts(self.judges, size), _parts(copies, size))
        block_inputs = BlockInputs(self.teacher, self.student, parts, self.memory)
        kept = 0
        for number, block in enumerate(self.log.track(self.blocks, "learning blocks", len(self.blocks))):
            elements = sum(self.elements.get(name, 0) for name in (*block.inputs, *block.outputs))
            room = max(BLOCK_BYTES // (2 * max(elements, 1)) // size, 1)
            samples = [
                _Sample(known, right)
                for index in range(judges, min(judges + room, block_inputs.count))
                for known, right in self._singles(block_inputs, index, block)
            ]
            held = [pair for index in range(judges) for pair in self._singles(block_inputs, index, block)]
            kept += self._learn_block(block, samples, [_Sample(*pair) for pair in held], total)
            later = {name for other in self.blocks[number + 1 :] for name in other.inputs}
            names = [name for name in self.elements if name in later and name in {*block.inputs, *block.outputs}]
            del samples, held
            block_inputs.move(names, sum(self.elements[name] for name in names) * (drawn + len(self.judges)))
            if self._is_overdue():
                break
        self.log.debug(f"  {kept} of {len(self.blocks)} blocks came nearer to the float network on held-out samples")
        for grid in self.student.activations.values():
            grid.drop = 0.0

    def _singles(
        self, block_inputs: BlockInputs, index: int, block: Block
    ) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
        """What a block reads in the student and gives in the teacher, sample by sample."""
        known, right = block_inputs.read(index, block.inputs), block_inputs.wanted(index, block.outputs)
        count = (
            next(iter(known.values())).shape[0] // next(iter(self.samples[0].values())).shape[0] if self.stacks else 1
        )
        halves = [{name: stored(tensor) for name, tensor in part.items()} for part in (known, right)]
        return_freed_memory(above=self.memory)
        for number in range(count):
            yield _part(halves[0], number, count), _part(halves[1], number, count)

    def _learn_block(self, block: Block, samples: Sequence[_Sample], judges: Sequence[_Sample], total: int) -> bool:
        """Whether a block came nearer on held-out samples; if not, it stays as it was.

        Args:
            block: The block.
            samples: What it learns from.
            judges: Held-out samples.
            total: Steps.
        """
        goals = [Goal(name, 1.0 / len(block.outputs)) for name in block.outputs]
        own = {*block.weights, *block.constants, *block.tensors}
        state = self.student.state_dict()
        before = {name: value.clone() for name, value in state.items()}
        least = self._judged(judges, goals)
        grids = [self.student.weights[name] for name in block.weights if name in self.student.weights]
        for grid in grids:
            grid.soften()
        optimizer = Optimizer(self.student, total, self.sizes, BLOCK_TRAVEL, own)
        total = total if optimizer.learns else 0
        order = batches(len(samples), self._block_batch(block), self.generator)
        for chosen, number in zip(order, range(total), strict=False):
            optimizer.step(partial(self._soft_losses, [samples[i] for i in chosen], goals, grids, number / total))
        for grid in grids:
            grid.harden()
        found = self._judged(judges, goals)
        self.log.debug(f"  block {', '.join(block.outputs)}: error {least:.4g} -> {found:.4g}")
        if found < least:
            return True
        self.student.load_state_dict(before)
        return False

    def _soft_losses(
        self, samples: Sequence[_Sample], goals: Sequence[Goal], grids: Sequence[WeightGrid], done: float
    ) -> Iterator[Tensor]:
        for loss in self._block_losses(samples, goals):
            yield loss + loss.detach() * rounding_regularizer(grids, done)

    def _judged(self, samples: Sequence[_Sample], goals: Sequence[Goal]) -> float:
        """Mean loss of a block on held-out samples."""
        self.student.eval()
        with torch.no_grad():
            size = self.batch if self.stacks else 1
            groups = [samples[i : i + size] for i in range(0, len(samples), size)]
            losses = [float(loss) * len(group) for group in groups for loss in self._block_losses(group, goals)]
        self.student.train()
        return sum(losses) / max(len(samples), 1)

    def _block_losses(self, samples: Sequence[_Sample], goals: Sequence[Goal]) -> Iterator[Tensor]:
        known, right = (restored(_stacked(parts)) for parts in zip(*((s.known, s.right) for s in samples), strict=True))
        yield loss_of(self.student.evaluate(known, [goal.name for goal in goals]), right, goals)

    def _learn_whole(self, total: int) -> None:
        outputs = self._relative(self._goals())
        optimizer = Optimizer(self.student, total, self.sizes, WHOLE_TRAVEL)
        total = total if optimizer.learns else 0
        every, losses, without_gain = max(total // CHECKS, 1), 0.0, 0
        order = batches(len(self.samples), self.batch, self.generator)
        for number, chosen in zip(self.log.track(range(1, total + 1), "learning", total), order, strict=False):
            losses += optimizer.step(partial(self._losses, chosen, outputs))
            return_freed_memory(above=self.memory)
            if number % every and number != total:
                continue
            best = self.best
            self._look(f"step {number}, loss {losses / every:.4g}")
            without_gain = 0 if self.best is not best else without_gain + 1
            losses = 0.0
            if without_gain == PATIENCE or self._is_overdue():
                break

    def _losses(self, chosen: Sequence[int], goals: Sequence[Goal]) -> Iterator[Tensor]:
        names = [goal.name for goal in goals]
        axis, draw = self.picture, self.draw
        drawn = [self.samples[i] if axis is None else _tensors(changed(self.pictures[i], axis, draw)) for i in chosen]
        groups = [_stacked(drawn)] if self.stacks else [dict(sample) for sample in drawn]
        for group in groups:
            with torch.no_grad():
                right = self.teacher.evaluate(group, names)
            yield loss_of(self.student.evaluate(group, names), right, goals) / len(groups)

    def _goals(self) -> list[Goal]:
        """The outputs, what a Softmax in front of one reads, and the tensors between blocks."""
        outputs = [v for v in self.graph.outputs if v.producer() and v.dtype in (ir.DataType.FLOAT, None)]
        goals = {str(v.name): 1.0 / len(outputs) for v in outputs}
        for value in outputs:
            producer = value.producer()
            if producer is not None and producer.op_type in ("Softmax", "Sigmoid") and producer.inputs[0] is not None:
                goals.setdefault(str(producer.inputs[0].name), 1.0 / len(outputs))
        inner = [n for block in self.blocks for n in block.outputs if n not in goals]
        return [Goal(n, w) for n, w in goals.items()] + [Goal(n, INNER / len(inner)) for n in dict.fromkeys(inner)]

    def _relative(self, goals: Sequence[Goal]) -> list[Goal]:
        """Goals whose errors count relative to what they are now: inner tensors may be off by far more than outputs."""
        names = [goal.name for goal in goals]
        sample = next(_parts(self.samples, self.batch if self.stacks else 1))
        self.student.eval()
        with torch.no_grad():
            found, right = self.student.evaluate(sample, names), self.teacher.evaluate(sample, names)
            now = [float(distance(found[name], right[name])) for name in names]
        self.student.train()
        return [replace(goal, weight=goal.weight / max(error, TINY)) for goal, error in zip(goals, now, strict=True)]

    def _look(self, what: str) -> Score:
        """Compare with the float network on held-out samples, and keep what is nearest so far."""
        found = learned(self.student)
        score, first = self.judge.score(found), self.started_with
        self._say(what, score)
        if score.noise < self.best.score.noise and score.error <= first.error and self.judge.is_gain(first, score):
            self.best = _Best(found, score, has_learnt=True)
        return score

    def _say(self, what: str, score: Score) -> None:
        text = f"error {score.noise:.4g}, cosine {score.cosine:.6f}, largest error {score.error:.4g}"
        self.log.debug(f"  {what}: {text} on held-out samples")

    def _is_overdue(self) -> bool:
        if time.monotonic() < self.deadline:
            return False
        self.log.warning(
            f"learning took {OVERDUE} times as long as announced and was ended; another run may give other bytes"
        )
        return True


def _tensors(feed: Feed) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in feed.items()}


def _stacked(samples: Sequence[Batch]) -> dict[str, Tensor]:
    return {name: torch.cat([sample[name] for sample in samples]) for name in samples[0]}


def _parts(samples: Iterable[Batch], size: int) -> Iterator[dict[str, Tensor]]:
    """Samples in batches."""
    left = iter(samples)
    while group := list(islice(left, size)):
        yield _stacked(group)


def _part(tensors: Batch, number: int, count: int) -> dict[str, Tensor]:
    """One of ``count`` samples that were computed together."""
    sizes = {name: tensor.shape[0] // count if tensor.dim() else 0 for name, tensor in tensors.items()}
    return {
        name: tensor.narrow(0, number * sizes[name], sizes[name]) if count > 1 else tensor
        for name, tensor in tensors.items()
    }


def _can_stack(network: Network, samples: Sequence[Batch], names: Sequence[str]) -> bool:
    """Whether samples may be computed together: all are of one shape, and these tensors are the same as of each alone."""
    if len(samples) < 2 or any(
        s[n].dim() == 0 or s[n].shape != t.shape for s in samples for n, t in samples[0].items()
    ):
        return False
    with torch.no_grad():
        alone = [network.evaluate(sample, names) for sample in samples[:2]]
        try:
            together = network.evaluate(_stacked(samples[:2]), names)
        except ModelError:
            return False
    return all(
        together[name].shape == torch.Size((2 * alone[0][name].shape[0], *alone[0][name].shape[1:]))
        and torch.allclose(together[name], torch.cat([part[name] for part in alone]), rtol=1e-3, atol=1e-4)
        for name in names
        if alone[0][name].dim()
    )
