"""``rounding=LEARNED``: a quantized network learns from the float one, block by block and then as a whole.

No labels: the float network is the teacher, on calibration samples, which are mirrored and cut where they are pictures. A part of
the samples is held out; what is returned is what came nearest to the teacher on them, in the graph that is written, and that is
the network as it was before if nothing came nearer.

Sources: Li et al., BRECQ, ICLR 2021 (blocks); Wei et al., QDrop, ICLR 2022 (activations left unquantized at random); Esser et
al., Learned Step Size Quantization, ICLR 2020 (steps); Hinton et al., Distilling the Knowledge in a Neural Network, 2015.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from converter_lite.errors import ModelError
from converter_lite.learning.blocks import Block, blocks_of
from converter_lite.learning.network import Freedom, Network
from converter_lite.learning.readback import learned
from converter_lite.learning.training import Batch, Goal, Optimizer, batches, loss_of, sizes_of_results
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.held_out import split, with_copies
from converter_lite.quantization.pictures import changed, channel_axis
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.score import Score, Scorer
from converter_lite.quantization.settings import Learning
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import bias_of

THREADS = 2
"""Of PyTorch, whatever the machine has: sums in another order would give other bytes."""

WORK_PER_SECOND = 2.5e9
"""Multiplications of the float network for which there is a second, in a step of teacher and student on two cores."""

NODE_SECONDS = 2e-4
"""Time that a node takes in such a step besides."""

BLOCKS_SHARE = 0.3
"""Part of the time in which blocks learn by themselves."""

BATCH_BYTES = 600 << 20
"""Memory for the tensors of a batch."""

BLOCK_BYTES = 250 << 20
"""Memory for what blocks read and give, in both networks; with fewer samples where all need more."""

COPIES = 4
"""Times that a tensor of the teacher is in memory while the student learns: its own, gradients, rounding."""

LARGEST_BATCH = 16

BLOCK_TRAVEL, WHOLE_TRAVEL = 1.0, 0.3
"""Shares of the ways of :mod:`.training` that parameters can go: the fewer layers learn at once, the further."""

WHOLE_INTEGERS = 0.1
"""The same for integers besides, when all learn at once: weights that are rounded another way change the network in jumps."""

CHECKS = 8
"""Times that the held-out samples are looked at."""

PATIENCE = 4
"""Looks without a gain after which nothing more is learnt."""

INNER = 0.2
"""Weight of the inner tensors beside the outputs, in all."""

DROPPED = 0.5
"""Share of the elements of activations of less than ``COARSE_BITS`` that blocks learn with unquantized."""

COARSE_BITS = 8

OVERDUE = 3
"""Multiple of the announced time after which it ends whatever is left."""


def learn_rounding(
    quantized: QuantizedModel, model: ir.Model, feeds: Sequence[Feed], wanted: Learning, context: RunContext
) -> QuantizedModel:
    """The quantized network, nearer to the float one on held-out samples if that could be learnt.

    Args:
        quantized: Where it starts.
        model: The float graph, with the same inputs and outputs.
        feeds: Calibration samples, at least two.
        wanted: Time, seed, and what may learn.
        context: Runs the graphs that are judged; its log receives the plan, the progress and the result.

    Raises:
        ModelError: There are no gradients of an operator; the node is named.
    """
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(THREADS)
    torch.manual_seed(wanted.seed)
    try:
        return _Lesson(quantized, model, feeds, wanted, context).run()
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


@dataclass(slots=True)
class _Best:
    """The best network so far, and how near it is to the float one."""

    quantized: QuantizedModel
    score: Score
    has_learnt: bool = False


class _Lesson:
    def __init__(
        self, quantized: QuantizedModel, model: ir.Model, feeds: Sequence[Feed], wanted: Learning, context: RunContext
    ) -> None:
        freedom = Freedom() if wanted.grids else Freedom(weight_steps=False, activation_grids=False)
        self.log = context.log
        self.wanted = wanted
        self.teacher = Network(quantized.reference or model).eval()
        self.student = Network(quantized.model, quantized, freedom)
        self.graph = quantized.model.graph
        self.blocks = blocks_of(self.graph, quantized.plan)
        fitted, held_out = split(feeds)
        self.pictures = [dict(feed) for feed in fitted]
        self.samples = [_tensors(feed) for feed in fitted]
        self.judges = [_tensors(feed) for feed in held_out]
        self.scorer = Scorer(model, held_out, context)
        self.best = _Best(quantized, self._score(quantized))
        self.generator = torch.Generator().manual_seed(wanted.seed)
        self.draw = np.random.default_rng(wanted.seed)
        self.picture = channel_axis(self.pictures[0])
        self.stacks = _can_stack(self.teacher, self.samples)
        self.batch, seconds = self._sizes()
        self.total = max(int(wanted.seconds / (seconds * self.batch)), CHECKS)
        self.deadline = time.monotonic() + OVERDUE * wanted.seconds
        self.kinds = f"{len(self.samples)} samples{', mirrored and cut' if self.picture is not None else ''}"
        self.started_with = self.best.score
        self.held_out = len(held_out)

    def run(self) -> QuantizedModel:
        """Blocks, then the whole network, then the better of before and after."""
        self.log.info(
            f"learning from the float network: {self.total} steps of {self.batch} of {self.kinds}; about "
            f"{self.wanted.seconds} s on two cores"
        )
        self._say("before", self.started_with)
        biases = {
            str(bias.name): str(node.outputs[0].name)
            for node in self.graph
            if (bias := bias_of(node)) is not None and bias.name in self.student.biases
        }
        self.sizes = sizes_of_results(self.teacher, self.samples[0], biases)
        self.student.train()
        for_blocks = int(self.total * BLOCKS_SHARE) if len(self.blocks) > 1 else 0
        if for_blocks:
            before = {name: value.clone() for name, value in self.student.state_dict().items()}
            self._learn_blocks(for_blocks)
            if not self._look("blocks"):
                self.student.load_state_dict(before)
        self._learn_whole(self.total - for_blocks)
        return self._finished()

    def _finished(self) -> QuantizedModel:
        first, last = self.started_with, self.best.score
        of = f"on {self.held_out} held-out samples"
        if not self.best.has_learnt:
            self.log.warning(f"learning gained nothing {of}: the network is returned as it was before")
        else:
            self.log.info(
                f"learnt: error {first.noise:.3g} -> {last.noise:.3g}, cosine {first.cosine:.6f} -> {last.cosine:.6f}, "
                f"largest error {first.error:.4g} -> {last.error:.4g} {of}"
            )
        return self.best.quantized

    def _sizes(self) -> tuple[int, float]:
        """Samples in a batch, and seconds that a step takes for each."""
        nodes = list(self.graph)
        names = [str(value.name) for node in nodes for value in node.outputs if value.name]
        with torch.no_grad():
            found = self.teacher.evaluate(self.samples[0], [name for name in names if name in self.teacher.tensors])
        self.elements = {name: tensor.numel() for name, tensor in found.items()}
        elements = sum(self.elements.values())
        work = sum(multiplications(node) for node in nodes) / WORK_PER_SECOND
        room = max(BATCH_BYTES // (4 * COPIES * max(elements, 1)), 1)
        batch = min(room, LARGEST_BATCH, len(self.samples))
        return batch, work + NODE_SECONDS * len(nodes) / (batch if self.stacks else 1)

    def _learn_blocks(self, total: int) -> None:
        """Each block learns to give what it gives in the float network, from what the learnt blocks before it give."""
        for grid in self.student.activations.values():
            grid.drop = DROPPED if grid.params.spec.bits < COARSE_BITS else 0.0
        largest = max((sum(self.elements.get(n, 0) for n in (*b.inputs, *b.outputs)) for b in self.blocks), default=0)
        drawn = [_tensors(feed) for feed in with_copies(self.pictures, self.wanted.seed)]
        room = max(BLOCK_BYTES // (8 * max(largest, 1)) - len(self.judges), 1)
        fitted = self._parts(drawn[:room])
        parts = [*fitted, *self._parts(self.judges)]
        known: list[dict[str, Tensor]] = [dict(part) for part in parts]
        right: list[dict[str, Tensor]] = [dict(part) for part in parts]
        kept = 0
        for block in self.log.track(self.blocks, "learning blocks", len(self.blocks)):
            kept += self._learn_block(block, known, right, (len(fitted), total))
            if self._is_overdue():
                break
        self.log.debug(f"  {kept} of {len(self.blocks)} blocks came nearer to the float network on held-out samples")
        for grid in self.student.activations.values():
            grid.drop = 0.0

    def _parts(self, samples: Sequence[Batch]) -> list[dict[str, Tensor]]:
        """Samples in batches, where they can be computed together."""
        size = self.batch if self.stacks else 1
        return [_stacked(samples[i : i + size]) for i in range(0, len(samples), size)]

    def _learn_block(
        self, block: Block, known: list[dict[str, Tensor]], right: list[dict[str, Tensor]], counts: tuple[int, int]
    ) -> bool:
        """Whether a block came nearer on held-out samples; if not, it stays as it was.

        Args:
            block: The block.
            known: What it reads, in batches: those that are learnt from, then those that judge. What it gives is added.
            right: The same in the float network.
            counts: How many batches are learnt from, and how many steps are taken.
        """
        outputs, (fitted, total) = list(block.outputs), counts
        goals = [Goal(name, 1.0 / len(outputs)) for name in outputs]
        with torch.no_grad():
            for part in right:
                part |= self.teacher.evaluate(part, outputs)
        own = {*block.weights, *block.constants, *block.tensors}
        optimizer = Optimizer(self.student, total, self.sizes, BLOCK_TRAVEL, 1.0, own)
        before = {name: value.clone() for name, value in self.student.state_dict().items()}
        least = self._judged(known[fitted:], right[fitted:], goals)
        for (index,), _ in zip(batches(fitted, 1, self.generator), range(total), strict=False):
            optimizer.step(partial(self._block_losses, known[index], right[index], goals))
        is_nearer = self._judged(known[fitted:], right[fitted:], goals) < least
        if not is_nearer:
            self.student.load_state_dict(before)
        self.student.eval()
        with torch.no_grad():
            for part in known:
                part |= self.student.evaluate(part, outputs)
        self.student.train()
        later = {name for other in self.blocks[self.blocks.index(block) + 1 :] for name in other.inputs}
        for parts in (known, right):
            for part in parts:
                for name in set(part) - later - set(self.teacher.inputs):
                    del part[name]
        return is_nearer

    def _judged(self, known: Sequence[Batch], right: Sequence[Batch], goals: Sequence[Goal]) -> float:
        """Mean loss of a block on held-out samples."""
        self.student.eval()
        with torch.no_grad():
            losses = [
                float(loss) for x, y in zip(known, right, strict=True) for loss in self._block_losses(x, y, goals)
            ]
        self.student.train()
        return sum(losses) / max(len(losses), 1)

    def _block_losses(self, known: Batch, right: Batch, goals: Sequence[Goal]) -> Iterator[Tensor]:
        yield loss_of(self.student.evaluate(known, [goal.name for goal in goals]), right, goals)

    def _learn_whole(self, total: int) -> None:
        outputs = self._goals()
        optimizer = Optimizer(self.student, total, self.sizes, WHOLE_TRAVEL, WHOLE_INTEGERS)
        every, losses, without_gain = max(total // CHECKS, 1), 0.0, 0
        order = batches(len(self.samples), self.batch, self.generator)
        for number, chosen in zip(self.log.track(range(1, total + 1), "learning", total), order, strict=False):
            losses += optimizer.step(partial(self._losses, chosen, outputs))
            if number % every and number != total:
                continue
            without_gain = 0 if self._look(f"step {number}, loss {losses / every:.4g}") else without_gain + 1
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
        outputs = [v for v in self.graph.outputs if v.dtype in (ir.DataType.FLOAT, None)]
        goals = {str(v.name): 1.0 / len(outputs) for v in outputs}
        for value in outputs:
            producer = value.producer()
            if producer is not None and producer.op_type in ("Softmax", "Sigmoid") and producer.inputs[0] is not None:
                goals.setdefault(str(producer.inputs[0].name), 1.0 / len(outputs))
        inner = [n for block in self.blocks for n in block.outputs if n not in goals]
        return [Goal(n, w) for n, w in goals.items()] + [Goal(n, INNER / len(inner)) for n in dict.fromkeys(inner)]

    def _look(self, what: str) -> bool:
        """Compare with the float network on held-out samples; whether it is the nearest so far."""
        found = learned(self.student)
        score = self._score(found)
        self._say(what, score)
        first = self.started_with
        if score.noise >= self.best.score.noise or score.cosine < first.cosine or score.error > first.error:
            return False
        self.best = _Best(found, score, has_learnt=True)
        return True

    def _say(self, what: str, score: Score) -> None:
        text = f"error {score.noise:.4g}, cosine {score.cosine:.6f}, largest error {score.error:.4g}"
        self.log.debug(f"  {what}: {text} on held-out samples")

    def _score(self, quantized: QuantizedModel) -> Score:
        return self.scorer(qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights)))

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


def _can_stack(network: Network, samples: Sequence[Batch]) -> bool:
    """Whether samples may be computed together: all are of one shape, and give the same as each alone."""
    if len(samples) < 2 or any(
        s[n].dim() == 0 or s[n].shape != t.shape for s in samples for n, t in samples[0].items()
    ):
        return False
    names = network.outputs
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
