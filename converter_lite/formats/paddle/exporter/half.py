"""ARM files that compute in float16 where kernels for it exist (``opt --enable_fp16``, ``--nbFp16``).

A finished float file is rewritten: operators get their float16 kernels, ``calib`` operators stand where a tensor changes
its precision, and attributes name the constants that the library has to convert while it loads. Constants stay float32
(or integers) in the file. Source of the rules: docs/formats/paddle_nb.md, float16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.exporter.half_columns import fails_at_one_pixel, trouble_with_columns
from converter_lite.formats.paddle.kernels import (
    KERNEL_ATTRIBUTE,
    RELEASES,
    RESULTS,
    Precision,
    Target,
    exists,
    kernels_of,
)
from converter_lite.formats.paddle.program import AttrType, Block, NbFile, Operator, Program, Variable, VarType, attr
from converter_lite.log import counted

NEEDED_RELEASES = frozenset("23")
"""Marks of the releases that must have a float16 kernel: 2.12 and the one after it."""

CONVERTED = frozenset(
    {
        *("conv2d", "depthwise_conv2d", "conv2d_transpose", "fc", "mul", "matmul", "matmul_v2", "prelu"),
        *("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"),
    }
)
"""Operators whose constants the library converts; in any other, a float16 kernel would take float32 bytes for float16."""

CONVERTS_ITSELF = frozenset({"sparse_conv2d"})
"""Operators whose float16 kernels convert their constants. This one also halves the steps of its weight, in place."""

READS_FLOAT = frozenset({"batch_norm"})
"""Operators whose float16 kernels take their constants as float32."""

EITHER = frozenset(
    {
        *("assign", "concat", "flatten2", "flatten_contiguous_range", "gather", "reshape2", "squeeze2"),
        *("transpose2", "unsqueeze2"),
    }
)
"""Operators that move data of slot X in either precision. ``shape`` does not look at the data at all."""

HALF_MAX = float(np.finfo(np.float16).max)
ONLY_ON_ARM = "float16 kernels exist for ARM only"
SHARED_STEPS = "steps of a sparse weight that other operators read too"
TOO_LARGE = "numbers beyond 65504, the largest of float16"
VANISHES = "numbers that are 0 in float16"
NOT_A_NUMBER = "tanh, of which the float16 kernel makes NaN beyond 11"
LONG_SUMS = "averages of more than 256 numbers, which the float16 kernel adds up in float16"
LONGEST_SUM = 256
"""Numbers of an average: the kernel adds eight sums of an eighth of them; 112 x 112 pixels were far off."""

WINOGRAD_FROM = 8
"""Channels above which a 3 x 3 convolution of stride 1 takes the Winograd form."""

NOT_CONVERTED = "constants that the library does not convert for such operators"


def to_half(file: NbFile) -> tuple[NbFile, tuple[str, ...]]:
    """The file with float16 kernels, and what the user should know. ``file`` itself stays as it is.

    Args:
        file: A file for ARM as the writer makes it: every variable is written once.
    """
    operators = file.program.main.operators
    if any(op.get("enable_int8") for op in operators):
        return file, ("the model computes with integers; float16 kernels are not used beside them",)
    work = _Rewriting(file)
    made = work.run()
    kept = tuple(f"float32 in spite of a float16 kernel: {count} x {why}" for why, count in work.refused.most_common())
    if not work.chosen:
        return file, ("no operator of the model computes in float16; the file is float32", *kept)
    return made, (_requirement(made, len(work.chosen)), *_winograd(work), *_single_pixels(work), *kept)


def _single_pixels(work: _Rewriting) -> tuple[str, ...]:
    """What happens to pictures whose size is open if they are very small."""
    operators = work.file.program.main.operators
    count = sum(work.fails_at_one_pixel(operators[index]) for index in work.chosen)
    if not count:
        return ()
    return (
        f"pictures of any size: where one is so small that {counted(count, 'convolution')} would give a single pixel, the float16"
        " kernel reads memory that is not its own, and gives NaN or ends the library; --inputShape fixes the size",
    )


def _winograd(work: _Rewriting) -> tuple[str, ...]:
    """What the proof cannot hold: it rounds results to float16, and adds up in float32."""
    operators = work.file.program.main.operators
    count = sum(_takes_winograd(operators[index], work.file) for index in work.chosen)
    if not count:
        return ()
    return (
        f"{count} convolutions of 3 x 3 run in a Winograd form, whose float16 sums the proof does not hold: errors of 1 to 3"
        " percent of a layer's values (root mean square, 16 to 256 channels); at some sizes of pictures the library ends with"
        " a segmentation fault in it, so run the file on the device before it is shipped",
    )


def _takes_winograd(op: Operator, file: NbFile) -> bool:
    if op.type != "conv2d" or op.get("groups") != 1:
        return False
    outputs, inputs, *kernel = file.parameters[str(op.input("Filter"))].shape
    ones = [list(map(int, op.get(name) or ())) for name in ("strides", "dilations")]
    return kernel == [3, 3] and ones == [[1, 1], [1, 1]] and min(inputs, outputs) > WINOGRAD_FROM


def _requirement(file: NbFile, count: int) -> str:
    operators = file.program.main.operators
    total = sum(op.type not in ("feed", "fetch", "calib", "shape", *EITHER) for op in operators)
    keys = {(op.type, str(op.get(KERNEL_ATTRIBUTE))) for op in operators}
    releases = [name for mark, name in RELEASES.items() if all(exists(kind, key, mark) for kind, key in keys)]
    named = " or ".join(filter(None, (", ".join(releases[:-1]), *releases[-1:])))
    library = f"Paddle-Lite {named}".rstrip()
    return (
        f"{count} of {total} operators that compute do so in float16: the file needs {library} built with float16"
        " kernels (--with_arm82_fp16=ON), and a processor that has them"
    )


def half_kernel(op: Operator) -> str | None:
    """Kernel string of an operator's float16 twin, or ``None`` when the releases have none."""
    kind, alias, target, precision, _ = str(op.get(KERNEL_ATTRIBUTE)).split("/")
    if (int(target), int(precision)) != (Target.ARM.value, Precision.FLOAT):
        return None
    for kernel in kernels_of(kind):
        same = (kernel.target, kernel.precision, kernel.alias) == (Target.ARM.value, Precision.FP16, alias)
        if same and set(kernel.releases) >= NEEDED_RELEASES:
            return kernel.key(kind)
    return None


@dataclass(slots=True)
class _Rewriting:
    """One rewriting.

    Attributes:
        file: What is rewritten; never changed.
        chosen: Index of an operator -> its float16 kernel.
        refused: Reason -> operators that have such a kernel and keep float32.
    """

    file: NbFile
    chosen: dict[int, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    _parameters: dict[str, NDArray[Any]] = field(init=False)
    _variables: dict[str, Variable] = field(init=False)
    _readers: Counter[str | None] = field(init=False)
    _operators: list[Operator] = field(default_factory=list)
    _fetched: frozenset[str] = frozenset()
    _halves: dict[str, str] = field(default_factory=dict)
    _floats: dict[str, str] = field(default_factory=dict)
    _copies: dict[str, str] = field(default_factory=dict)
    _native: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._parameters = dict(self.file.parameters)
        operators = self.file.program.main.operators
        self._readers = Counter(name for op in operators for names in op.inputs.values() for name in names)
        self._variables = {variable.name: replace(variable) for variable in self.file.program.main.variables}

    def run(self) -> NbFile:
        """The rewritten file."""
        main = self.file.program.main
        self._choose(main.operators)
        self._fetched = frozenset(str(op.input("X")) for op in main.operators if op.type == "fetch")
        both = self._read_as_both(main.operators)
        self._copies = {name: self._copy(name) for name in sorted(both)}
        for index, op in enumerate(main.operators):
            self._operators.append(self._rewritten(op, self.chosen.get(index)))
        block = Block(main.index, main.parent, list(self._variables.values()), self._operators, main.forward)
        program = Program([block, *self.file.program.blocks[1:]], self.file.program.version)
        return NbFile(program, self._parameters, self.file.meta_version, self.file.opt_version)

    def fails_at_one_pixel(self, op: Operator) -> bool:
        """Whether a convolution must not give a single pixel."""
        return fails_at_one_pixel(op, lambda name: self._variables[name].dims)

    # Which operators and constants are converted.

    def _choose(self, operators: list[Operator]) -> None:
        for index, op in enumerate(operators):
            kernel = half_kernel(op)
            if kernel is None:
                continue
            reason = self._reason(op)
            if reason:
                self.refused[reason] += 1
            else:
                self.chosen[index] = kernel

    def _reason(self, op: Operator) -> str:
        """Why an operator that has a float16 kernel must not use it; empty when it may."""
        if op.type in READS_FLOAT:
            return ""
        if op.type == "tanh":
            return NOT_A_NUMBER
        if op.type == "pool2d" and op.get("pooling_type") == "avg" and not 0 < self._window(op) <= LONGEST_SUM:
            return LONG_SUMS
        if reason := trouble_with_columns(op, lambda name: self._variables[name].dims):
            return reason
        numbers = [np.float32(a.value) for a in op.attributes.values() if a.type is AttrType.FLOAT]
        if any(abs(number) > HALF_MAX for number in numbers):
            return TOO_LARGE
        if any(number and not np.float16(number) for number in numbers):
            return VANISHES
        constants = list(self._constants(op))
        if constants and op.type not in CONVERTED | CONVERTS_ITSELF:
            return NOT_CONVERTED
        if op.type in CONVERTS_ITSELF and self._readers[op.input("Diffs")] > 1:
            return SHARED_STEPS
        if any(self._largest(op, name) > HALF_MAX for _, name in constants):
            return TOO_LARGE
        divisors = [self._parameters[name] for slot, name in constants if (op.type, slot) == ("elementwise_div", "Y")]
        if any(np.any((array != 0) & (array.astype(np.float16) == 0)) for array in divisors):
            return VANISHES
        # the epsilon of a divisor, for one
        summands = [self._parameters[name] for _, name in constants if op.type == "elementwise_add"]
        if any(np.any(array) and not np.any(array.astype(np.float16)) for array in summands):
            return VANISHES
        return ""

    def _window(self, op: Operator) -> int:
        """Numbers that a pooling takes together; not positive where the size of the picture is unknown."""
        sizes = self._variables[str(op.input("X"))].dims[2:] if op.get("global_pooling") else op.get("ksize")
        return 0 if min(sizes, default=0) < 1 else int(np.prod(sizes))

    def _constants(self, op: Operator) -> Iterator[tuple[str, str]]:
        """Slot and name of an operator's constants that hold numbers: floats, or integers with a scale."""
        for slot, names in op.inputs.items():
            for name in names:
                array = self._parameters.get(name)
                if array is not None and (array.dtype == np.float32 or array.dtype in (np.int8, np.int16)):
                    yield slot, name

    def _largest(self, op: Operator, name: str) -> float:
        """Largest finite absolute value of a constant. (An infinite one stays what it is.)."""
        array = self._parameters[name]
        if array.dtype != np.float32:
            scales = op.get(f"{name}_quant_scale", ())
            return max(scales, default=0.0) * float(np.iinfo(array.dtype).max)
        return float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0))

    def _read_as_both(self, operators: list[Operator]) -> set[str]:
        """Float constants that one operator reads as float16 and another as float32."""
        uses: dict[bool, set[str]] = {True: set(), False: set()}
        for index, op in enumerate(operators):
            converts = index in self.chosen and op.type in CONVERTED | CONVERTS_ITSELF
            uses[converts].update(name for _, name in self._constants(op))
        return uses[True] & uses[False]

    def _copy(self, name: str) -> str:
        made = self._declare(f"{name}.fp16", like=name)
        self._parameters[made] = self._parameters[name]
        return made

    # The operators.

    def _rewritten(self, op: Operator, kernel: str | None) -> Operator:
        if kernel is not None:
            return self._half(op, kernel)
        if op.type in EITHER and self._moves_half(op):
            inputs = {**op.inputs, "X": [self._as_half(name) for name in op.inputs["X"]]}
            return Operator(op.type, inputs, self._half_results(op), op.attributes)
        if op.type == "shape":  # it reads no data
            form = self._as_computed
        else:
            form = self._as_float
        inputs = {slot: [form(name) for name in names] for slot, names in op.inputs.items()}
        return Operator(op.type, inputs, op.outputs, op.attributes)

    def _moves_half(self, op: Operator) -> bool:
        return bool(op.inputs["X"]) and all(name in self._native for name in op.inputs["X"])

    def _half(self, op: Operator, kernel: str) -> Operator:
        attributes = {**op.attributes, KERNEL_ATTRIBUTE: attr(kernel)}
        converts = op.type in CONVERTED | CONVERTS_ITSELF
        inputs = {}
        for slot, names in (op.inputs | self._zero_bias(op)).items():
            inputs[slot] = [self._half_input(name, converts=converts) for name in names]
        if op.type in CONVERTED:
            for _, name in self._constants(Operator(op.type, inputs)):
                attributes[f"{name}_fp16"] = attr("fp16")
        return Operator(op.type, inputs, self._half_results(op), attributes)

    def _zero_bias(self, op: Operator) -> dict[str, list[str]]:
        """Slot ``Bias`` with zeros where a transposed convolution has a function and no bias.

        The kernel then applies the function to products, and adds up what overlaps afterwards.
        """
        if op.type != "conv2d_transpose" or not op.get("with_act") or op.input("Bias") is not None:
            return {}
        filters = str(op.input("Filter"))
        made = self._declare(f"{op.outputs['Output'][0]}.bias", like=filters)
        channels = self._parameters[filters].shape[1] * int(op.get("groups"))
        self._parameters[made], self._variables[made].dims = np.zeros(channels, np.float32), (channels,)
        return {"Bias": [made]}

    def _half_input(self, name: str, *, converts: bool) -> str:
        if name in self._parameters:
            return self._copies.get(name, name) if converts else name
        return self._as_half(name)

    def _half_results(self, op: Operator) -> dict[str, list[str]]:
        """Output slots; the result is float16, under a new name if a model output has the name."""
        outputs = {}
        for slot, names in op.outputs.items():
            outputs[slot] = [self._half_result(name) for name in names] if slot in RESULTS else names
        return outputs

    def _half_result(self, name: str) -> str:
        made = self._declare(f"{name}.fp16", like=name) if name in self._fetched else name
        self._variables[made].dtype = VarType.FP16
        self._native.add(name)
        self._halves[name] = made
        return made

    # Borders.

    def _as_computed(self, name: str) -> str:
        """The variable that the operator in front wrote."""
        return self._halves[name] if name in self._native else name

    def _as_half(self, name: str) -> str:
        """The variable that holds a tensor in float16; tensors without floats are left alone."""
        if name not in self._halves and self._variables[name].dtype == VarType.FP32:
            made = self._declare(f"{name}.fp16", like=name)
            self._variables[made].dtype = VarType.FP16
            self._calib("fp32_to_fp16", name, made)
            self._halves[name] = made
        return self._halves.get(name, name)

    def _as_float(self, name: str) -> str:
        """The variable that holds a tensor in float32."""
        if name in self._native and name not in self._floats:
            made = name if name in self._fetched else self._declare(f"{name}.fp32", like=name)
            self._variables[made].dtype = VarType.FP32
            self._calib("fp16_to_fp32", self._halves[name], made)
            self._floats[name] = made
        return self._floats.get(name, name)

    def _calib(self, alias: str, source: str, to: str) -> None:
        attributes = {KERNEL_ATTRIBUTE: attr(f"calib/{alias}/{Target.ARM.value}/{Precision.FP16.value}/1")}
        self._operators.append(Operator("calib", {"Input": [source]}, {"Out": [to]}, attributes))

    def _declare(self, hint: str, *, like: str) -> str:
        name, count = hint, 1
        while name in self._variables:
            name, count = f"{hint}_{count}", count + 1
        self._variables[name] = replace(self._variables[like], name=name)
        return name
