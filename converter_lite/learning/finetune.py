"""Training a quantized classifier on labelled pictures, with checkpoints."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite.data.configured import picture_settings
from converter_lite.data.files import FileList
from converter_lite.data.images import ImagePreprocess
from converter_lite.data.inputs import InputSpec, input_specs
from converter_lite.data.labelled import Labelled, read_labelled
from converter_lite.data.layout import Layout, model_layout
from converter_lite.data.sources import open_images
from converter_lite.errors import DataError, ModelError, UsageError
from converter_lite.learning.aware import REPAIRED_EVERY, QuantAware, augmented, fingerprint, trained
from converter_lite.learning.network import Network, check_operators
from converter_lite.log import Log
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.system.files import refuse_irregular, transaction

if TYPE_CHECKING:
    from converter_lite.config.sections.data import DataPreprocessParam

THREADS = 1
"""Of PyTorch unless more are asked for: several share small batches at a loss where a machine has other work."""

KEPT_BYTES = 256 << 20
"""Memory for prepared pictures; others are decoded again in each epoch."""

LAST_RATE = 0.02
"""Share of the learning rate that is left at the end (a half cosine)."""

FORMAT_VERSION = 3


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained.

    Attributes:
        data: Folder or CSV file of the pictures.
        validation: The same for pictures that are only looked at, after each epoch.
        classes: Names in the order of the outputs; none: see :func:`~converter_lite.data.labelled.read_labelled`.
        epochs: Passes over the pictures.
        rate: Learning rate; see :meth:`~converter_lite.learning.aware.QuantAware.parameter_groups`.
        batch: Pictures in a step.
        seed: Of their order and of what is changed in them.
        augment: See :func:`~converter_lite.learning.aware.augmented`.
        distill: Weight from 0 to 1 of what the float network says about a picture, beside its label.
        threads: Of PyTorch; 0 is ``THREADS``. Another number adds in another order and gives other bytes.
        checkpoint: Where the state is written after each epoch.
        resume: Go on from there.
    """

    data: Path
    validation: Path | None = None
    classes: tuple[str, ...] = ()
    epochs: int = 20
    rate: float = 0.0003
    batch: int = 32
    seed: int = 0
    augment: str = "all"
    distill: float = 0.0
    threads: int = 0
    checkpoint: Path | None = None
    resume: bool = False

    def same(self) -> dict[str, Any]:
        """What a checkpoint must have been made with."""
        names = ("epochs", "rate", "batch", "seed", "augment", "distill", "threads")
        return {name: value for name, value in asdict(self).items() if name in names}


@dataclass(slots=True)
class _Pictures:
    """Prepared pictures; those that fit into memory are prepared once."""

    labels: Tensor
    load: Callable[[Path], Any]
    files: Sequence[Path]
    settings: ImagePreprocess
    kept: dict[int, Tensor] = field(default_factory=dict)
    room: int = KEPT_BYTES

    def batch(self, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
        return torch.cat([self._one(number) for number in chosen]), self.labels[list(chosen)]

    def _one(self, number: int) -> Tensor:
        if number in self.kept:
            return self.kept[number]
        made = torch.from_numpy(self.load(self.files[number]))
        self.room -= made.numel() * made.element_size()
        if self.room > 0:
            self.kept[number] = made
        return made


def check_lesson(model: ir.Model, wanted: Training) -> None:
    """Refuse a float graph and labels that do not fit, and what is no checkpoint, before anything is done for them.

    Raises:
        DataError: Pictures, labels or the checkpoint do not fit.
        ModelError: The network is no such classifier as :func:`finetune` takes, or has an operator without gradients.
    """
    check_operators(model)
    _, classes = _classifier(model)
    for data in (wanted.data, wanted.validation):
        if data is not None:
            read_labelled(data, wanted.classes, classes)
    if wanted.resume and wanted.checkpoint is not None:
        read_checkpoint(wanted.checkpoint)


def finetune(start: QuantizedModel, data: DataPreprocessParam | None, wanted: Training, log: Log) -> QuantizedModel:
    """The network after training on labelled pictures.

    Args:
        start: A quantized classifier: its only input is a picture, its only output has a number for each class.
        data: ``[data_preprocess_param]``, which says how pictures are prepared; ``None``: as they are.
        wanted: Pictures and how to train.
        log: Receives loss and accuracy of each epoch.

    Raises:
        DataError: Pictures, labels or the checkpoint do not fit.
        ModelError: The network is no such classifier, or has an operator without gradients.
    """
    if not start.plan.quantized_nodes:
        raise UsageError("nothing is quantized: there is nothing to train", where="--configFile", hint="set quant_type")
    spec, classes = _classifier(start.model)
    settings = picture_settings(data) if data is not None else ImagePreprocess()
    pictures = _open(read_labelled(wanted.data, wanted.classes, classes), spec, settings)
    judges = (
        _open(read_labelled(wanted.validation, wanted.classes, classes), spec, settings) if wanted.validation else None
    )
    with _deterministic(wanted.seed, wanted.threads or THREADS):
        lesson = _Lesson(start, pictures, 1 if model_layout(spec)[0] is Layout.NCHW else 3, wanted)
        return lesson.run(judges, log)


def _classifier(model: ir.Model) -> tuple[InputSpec, int]:
    specs, outputs = input_specs(model), model.graph.outputs
    is_real = outputs[0].dtype is None or outputs[0].dtype.is_floating_point()
    shape = outputs[0].shape if len(outputs) == 1 and is_real else None
    if len(specs) != 1 or len(specs[0].shape) != 4 or shape is None or len(shape) != 2 or not isinstance(shape[1], int):
        raise ModelError(
            "this is no classifier of pictures: one input of four dimensions, one output with a real number for each class",
            hint="train other networks in a loop of your own, with converter_lite.quant_aware",
        )
    return specs[0], shape[1]


def _open(labelled: Labelled, spec: InputSpec, settings: ImagePreprocess) -> _Pictures:
    if settings.final_size is None and None in spec.shape[1:]:
        raise DataError("pictures may differ in size", where="resize_width, resize_height", hint="set resize_method")
    source = open_images(spec, FileList(labelled.files, ()), settings).source
    return _Pictures(torch.tensor(labelled.labels), source.load, labelled.files, settings)


class _Lesson:
    def __init__(self, start: QuantizedModel, pictures: _Pictures, axis: int, wanted: Training) -> None:
        self.wanted, self.pictures, self.axis = wanted, pictures, axis
        self.module = QuantAware(start)
        self.teacher = Network(start.reference or start.model).eval() if wanted.distill else None
        self.inner = _before_softmax(start.model)
        self.optimizer = torch.optim.Adam(self.module.parameter_groups(wanted.rate))
        self.generator = torch.Generator().manual_seed(wanted.seed)
        self.first_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.steps = -(-len(pictures.files) // wanted.batch)
        self.chunk = _chunk(self.module, start, pictures)
        self.done = self.kept = 0
        self.mark = fingerprint(start)
        self.lessons = _lessons(pictures)

    def run(self, judges: _Pictures | None, log: Log) -> QuantizedModel:
        if self.wanted.resume:
            self._load(log)
        if judges is not None and not self.done:
            log.info(f"before: accuracy {self._accuracy(judges):.2%} of {len(judges.files)} validation pictures")
        try:
            while self.done < self.wanted.epochs:
                loss, accuracy = self._epoch(log)
                text = f"epoch {self.done}/{self.wanted.epochs}: loss {loss:.4f}, accuracy {accuracy:.2%}"
                log.info(text + (f", validation {self._accuracy(judges):.2%}" if judges is not None else ""))
                self._save()
        except KeyboardInterrupt:
            if self.kept:
                log.info(f"{self.wanted.checkpoint} holds epoch {self.kept}; --resume goes on from there")
            raise
        return trained(self.module)

    def _epoch(self, log: Log) -> tuple[float, float]:
        """Mean loss and share of right answers."""
        self.module.train()
        order = torch.randperm(len(self.pictures.files), generator=self.generator).tolist()
        batches = [order[i : i + self.wanted.batch] for i in range(0, len(order), self.wanted.batch)]
        losses, right = 0.0, 0
        for number, chosen in enumerate(log.track(batches, f"epoch {self.done + 1}", len(batches))):
            self._set_rate(self.done * self.steps + number)
            x, labels = self.pictures.batch(chosen)
            logits, loss = self._step(augmented(x, self.axis, self.wanted.augment, self.generator), labels)
            losses += loss * len(chosen)
            right += int((logits.argmax(1) == labels).sum())
            if number % REPAIRED_EVERY == REPAIRED_EVERY - 1 or number == len(batches) - 1:
                self.module.keep_within()
        self.done += 1
        return losses / len(order), right / len(order)

    def _step(self, x: Tensor, labels: Tensor) -> tuple[Tensor, float]:
        logits = self._logits(self.module, x)
        loss = (1 - self.wanted.distill) * F.cross_entropy(logits, labels)
        if self.teacher is not None:
            with torch.no_grad():
                wanted = self._logits(self.teacher, x).softmax(1)
            loss = loss + self.wanted.distill * F.cross_entropy(logits, wanted)
        if not math.isfinite(float(loss.detach())):
            raise UsageError(
                "the loss is not finite any more",
                where=f"--learningRate={self.wanted.rate:g}",
                hint="use a smaller one",
            )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return logits.detach(), float(loss.detach())

    def _logits(self, network: Network, x: Tensor) -> Tensor:
        return torch.cat([self._answer(network, part) for part in x.split(self.chunk or len(x))])

    def _answer(self, network: Network, x: Tensor) -> Tensor:
        """The output, or what a Softmax in front of it reads: a cross-entropy wants numbers that are not normalized."""
        if self.inner is None:
            return network(x)
        found = network.evaluate({network.inputs[0]: x}, [self.inner])[self.inner]
        return network.activations[self.inner](found) if self.inner in network.activations else found

    def _accuracy(self, pictures: _Pictures) -> float:
        self.module.eval()
        right = 0
        with torch.no_grad():
            for first in range(0, len(pictures.files), self.wanted.batch):
                chosen = range(first, min(first + self.wanted.batch, len(pictures.files)))
                x, labels = pictures.batch(chosen)
                right += int((self._logits(self.module, x).argmax(1) == labels).sum())
        return right / len(pictures.files)

    def _set_rate(self, step: int) -> None:
        share = step / max(self.steps * self.wanted.epochs, 1)
        factor = LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
        for group, first in zip(self.optimizer.param_groups, self.first_rates, strict=True):
            group["lr"] = first * factor

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        path = self.wanted.checkpoint
        if path is None:
            return
        state = {
            "version": FORMAT_VERSION,
            "start": self.mark,
            "lessons": self.lessons,
            "settings": self.wanted.same(),
            "epoch": self.done,
            "network": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }
        with transaction(path.parent) as files:
            torch.save(state, files.work / "checkpoint")
            files.add(files.work / "checkpoint", path)
            files.commit()
            self.kept = self.done

    def _load(self, log: Log) -> None:
        path = self.wanted.checkpoint
        assert path is not None
        state = read_checkpoint(path)
        if state["start"] != self.mark:
            raise DataError(
                "the checkpoint is of another model, configuration or output format, or of other calibration samples",
                where=str(path),
                hint="leave --resume out to start anew",
            )
        if state["lessons"] != self.lessons:
            raise DataError(
                "the checkpoint was made with other pictures or labels, or they were prepared differently",
                where=str(path),
                hint="give the --data and --configFile of the first run, or leave --resume out to start anew",
            )
        for name, value in self.wanted.same().items():
            if state["settings"].get(name) != value:
                raise DataError(
                    f"the checkpoint was made with {name}={state['settings'].get(name)}, not {value}",
                    where=str(path),
                    hint="give the same value, or leave --resume out to start anew",
                )
        try:
            self.module.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.generator.set_state(state["generator"])
            self.done = self.kept = int(state["epoch"])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise _damaged(path) from error
        log.info(f"{path}: going on after epoch {self.done}")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a checkpoint holds; nothing in it is executed.

    Raises:
        DataError: It cannot be read, or is no checkpoint.
    """
    try:
        refuse_irregular(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError("there is no such checkpoint to go on from", where=str(path)) from error
    except Exception as error:  # whatever damaged or foreign bytes cause
        raise _damaged(path) from error
    keys = {"version", "start", "lessons", "settings", "epoch", "network", "optimizer", "generator"}
    if not isinstance(state, dict) or set(state) != keys or state["version"] != FORMAT_VERSION:
        raise _damaged(path)
    if not isinstance(state["settings"], dict):
        raise _damaged(path)
    return state


def _lessons(pictures: _Pictures) -> str:
    """A hash of how pictures are prepared, and of their names and labels, in order; their folder may have moved since."""
    rows = zip(pictures.files, pictures.labels.tolist(), strict=True)
    text = f"{pictures.settings}\n" + "".join(f"{file.name},{label}\n" for file, label in rows)
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _damaged(path: Path) -> DataError:
    return DataError(
        "this is no checkpoint of this version, or it is damaged",
        where=str(path),
        hint="leave --resume out to start anew",
    )


def _before_softmax(model: ir.Model) -> str | None:
    producer = model.graph.outputs[0].producer()
    is_softmax = producer is not None and producer.op_type == "Softmax"
    return (
        str(producer.inputs[0].name) if is_softmax and producer is not None and producer.inputs[0] is not None else None
    )


def _chunk(module: Network, start: QuantizedModel, pictures: _Pictures) -> int | None:
    """Pictures that a graph takes at once; ``None``: any number."""
    fixed = input_specs(start.model)[0].shape[0]
    if fixed is None:
        return None
    pair = pictures.batch([0, 1])[0]
    if fixed > 1:
        raise ModelError(f"the graph takes {fixed} pictures at a time", hint="use a model with an open batch, or of 1")
    try:
        with torch.no_grad():
            together = module.evaluate({module.inputs[0]: pair}, module.outputs)[module.outputs[0]]
    except ModelError:
        return 1
    return None if len(together) == len(pair) else 1


@contextmanager
def _deterministic(seed: int, used: int) -> Iterator[None]:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(used)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
