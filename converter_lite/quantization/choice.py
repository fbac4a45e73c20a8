"""From a configuration to the settings of an algorithm, checked against the graph."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.config.names import (
    FULL_BITS,
    ActivationQuantMethod,
    DynamicQuantStrategy,
    QuantType,
    Rounding,
    TargetDevice,
    WeightQuantStrategy,
    Width,
)
from converter_lite.config.sections.quantization import FullQuantParam
from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import ConfigError, did_you_mean
from converter_lite.quantization.blocks import turn_weights
from converter_lite.quantization.constants import BIAS_OPERATORS, ensure_biases
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.settings import (
    DATA_COSINE,
    TUNED_COSINE,
    WIDE_BITS,
    Blocks,
    DynamicSettings,
    FullSettings,
    Goal,
    Learning,
    MixedBits,
    Settings,
    WeightSettings,
)
from converter_lite.system.extras import require
from converter_lite.targets.devices import target_spec
from converter_lite.targets.policy import Policy

PLAN_MODES: dict[type, tuple[NodeMode, ...]] = {
    FullSettings: (NodeMode.FLOAT, NodeMode.INTEGER, NodeMode.WEIGHT),
    WeightSettings: (NodeMode.FLOAT, NodeMode.WEIGHT),
    DynamicSettings: (NodeMode.FLOAT, NodeMode.WEIGHT, NodeMode.DYNAMIC),
}
"""Kind of quantization -> what its plans may say about a node."""

ADAPTIVE_BELOW_BITS = 8
"""Weights of fewer bits get adaptive rounding by default: from 8 bits on it gains less than it costs in time."""

SKIPPED, EIGHT_BITS = ("common_quant_param", "skip_quant_node"), ("weight_quant_param", "eight_bit_node")
"""Keys with names of nodes."""

MOST_NAMED = 100
"""Most unknown names that are listed one by one."""

ONE_SCALE = (
    "smooth_alpha has no effect on weights with one scale per layer: what equalization moves does not depend on it"
)
"""What is said of the key there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How to quantize for one output format.

    Attributes:
        settings: Of the algorithm.
        target: The runtime that it is for.
        goal: Accuracy to reach by leaving nodes in float.
        notes: Where the format departs from the configuration.
        learning: How it learns from the float network, ``None`` if it does not.
        decided: What is said of how nodes at the interface are decided; a plan that the user gives decides them itself.
    """

    settings: Settings
    target: Policy
    goal: Goal | None = None
    notes: tuple[str, ...] = ()
    learning: Learning | None = None
    decided: tuple[str, ...] = ()

    @property
    def is_gated(self) -> bool:
        """Whether the default quality gate holds: 8 bits and more, or searched widths."""
        if isinstance(self.settings, FullSettings):
            return not self.settings.is_narrow
        if isinstance(self.settings, DynamicSettings):
            return True
        mixed = self.settings.mixed
        return self.settings.bits >= 8 if mixed is None else mixed.search

    @property
    def is_per_channel(self) -> bool:
        """Whether a weight has one scale per channel."""
        if isinstance(self.settings, DynamicSettings):
            return self.settings.weight_per_channel
        return self.settings.per_channel

    @property
    def chooses_widths(self) -> bool:
        """Whether each weight gets a width of its own."""
        return isinstance(self.settings, WeightSettings) and self.settings.mixed is not None

    @property
    def measures(self) -> bool:
        """Whether nodes or widths are chosen by measured accuracy."""
        mixed = self.settings.mixed if isinstance(self.settings, WeightSettings) else None
        return self.goal is not None or (mixed is not None and mixed.search)

    def said(self, *, planned: bool) -> tuple[str, ...]:
        """What users are told of it; with ``planned``, a plan of theirs decides about nodes."""
        return self.notes if planned else (*self.notes, *self.decided)

    def check_plan(self, plan: QuantPlan, *, usual: QuantPlan, where: str) -> None:
        """Refuse a plan that was made for another device, another kind of quantization, or without integers at the interface.

        Args:
            plan: A plan that the user gave.
            usual: What would be decided without it.
            where: Its file.

        Raises:
            ConfigError: It was; ``where`` names the file.
        """
        if plan.target != self.target.name:
            raise ConfigError(f"the plan is for {plan.target}, not for {self.target.name}", where=where)
        allowed = PLAN_MODES[type(self.settings)]
        foreign = next((name for name, node in plan.nodes.items() if node.mode not in allowed), None)
        if foreign is not None:
            mode = plan.nodes[foreign].mode.value
            raise ConfigError(f"the plan is for another quant_type: node {foreign} has mode {mode}", where=where)
        for kind in (NodeMode.INTEGER, NodeMode.DYNAMIC):
            if _has(usual, kind) and plan.quantized_nodes and not _has(plan, kind):
                raise ConfigError(f"the plan is for another quant_type: no node has mode {kind.value}", where=where)
        missing = sorted(usual.ends - plan.activations.keys())
        if missing:
            raise ConfigError(
                f"the plan does not quantize {', '.join(missing)}, which {'are' if missing[1:] else 'is'} to be integers",
                where=where,
                hint="save it with the same --inputDataType and --outputDataType, or leave these at DEFAULT",
            )

    def prepare(self, model: ir.Model) -> None:
        """Add to the graph, in place, the constants that plans of this kind refer to."""
        if isinstance(self.settings, FullSettings):
            ensure_biases(model, operators=BIAS_OPERATORS)
        elif isinstance(self.settings, WeightSettings) and self.settings.blocks is not None:
            turn_weights(model)


def _has(plan: QuantPlan, mode: NodeMode) -> bool:
    return any(node.mode is mode for node in plan.nodes.values())


def choose(
    config: QuantizationConfig, model: ir.Model, vanished: frozenset[str], *, has_samples: bool
) -> Choice | None:
    """Settings of the quantization that a configuration asks for; ``None`` for a float conversion.

    Args:
        config: Checked configuration.
        model: Optimized graph, to resolve ``skip_quant_node``.
        vanished: Names that the optimizer removed with everything they did.
        has_samples: Whether there are calibration samples.

    Raises:
        ConfigError: ``skip_quant_node`` names nothing (every such name is listed with the nearest right one), or
            something needs calibration samples and there are none.
    """
    common = config.common_quant_param
    if common.quant_type is None:
        return None
    skip = named_nodes(config, SKIPPED, model, vanished)
    choice = _choose(config, skip, has_samples=has_samples)
    if choice.settings.rounding is Rounding.LEARNED:
        _check_learning(config)
        unlearned = _choose(_without_rounding(config), skip, has_samples=has_samples).settings.rounding
        choice = replace(choice, learning=Learning(common.learn_seconds, common.learn_seed, unlearned=unlearned))
    if isinstance(choice.settings, WeightSettings):
        choice = replace(choice, settings=replace(choice.settings, blocks=_blocks(config, model, vanished)))
    if common.target_cosine is None and common.target_error is None:
        return choice
    goal = Goal(common.target_cosine, common.target_error, common.max_float_nodes)
    mixed = choice.settings.mixed if isinstance(choice.settings, WeightSettings) else None
    if mixed is None or not mixed.search or not isinstance(choice.settings, WeightSettings):
        return replace(choice, goal=goal)
    if goal.cosine is None or goal.error is not None:
        raise ConfigError(
            "widths are searched for a cosine, not for a largest error",
            where=config.location("common_quant_param", "target_error"),
            hint="set target_cosine, or init_scale with auto_tune=false",
        )
    return replace(choice, settings=replace(choice.settings, mixed=replace(mixed, target_cosine=goal.cosine)))


def _section(config: QuantizationConfig) -> str:
    """Name of the section of the quantization type that is chosen."""
    quant_type = config.common_quant_param.quant_type
    assert quant_type is not None
    return quant_type.value.lower().replace("_quant", "_quant_param")


def _without_rounding(config: QuantizationConfig) -> QuantizationConfig:
    """The configuration where no rounding is asked for."""
    section: Any = getattr(config, _section(config))
    changes: dict[str, Any] = {_section(config): replace(section, rounding=None)}
    return replace(config, **changes)


def _check_learning(config: QuantizationConfig) -> None:
    """Refuse to learn without the packages.

    Raises:
        UsageError: A package is missing.
    """
    section = _section(config)
    where = config.location(section, "rounding") or f"[{section}] rounding"
    require(("torch",), what="rounding=LEARNED", extra="learn", where=where)


def _choose(config: QuantizationConfig, skip: frozenset[str], *, has_samples: bool) -> Choice:
    common = config.common_quant_param
    if common.quant_type is QuantType.FULL_QUANT:
        return _choose_full(config, skip)
    if common.quant_type is QuantType.DYNAMIC_QUANT:
        dynamic, target = config.dynamic_quant_param, target_spec(TargetDevice.CPU.value)
        per_channel = dynamic.quant_strategy is DynamicQuantStrategy.ALWC
        settings = DynamicSettings(
            per_channel,
            dynamic.smoothing,
            skip=skip,
            portable=common.portable,
            rounding=dynamic.rounding or Rounding.ADAPTIVE,
            recurrent=NodeMode.DYNAMIC if dynamic.recurrent_operator else NodeMode.WEIGHT,
            costs=target.costs,
        )
        return Choice(settings, target)
    return _choose_weights(config, skip, has_samples=has_samples)


def _choose_full(config: QuantizationConfig, skip: frozenset[str]) -> Choice:
    full = config.full_quant_param
    target = target_spec(full.target_device.value)
    bits, activation_bits = config.common_quant_param.bit_num, int(full.activation_bits.value)
    target = replace(
        target,
        weight=replace(target.weight, bits=bits),
        between=replace(target.activation, bits=activation_bits),
        quantize_bias=target.quantize_bias or activation_bits < FULL_BITS[-1],  # onnxruntime would, unseen by the proof
        pairs_saturate=target.pairs_saturate and config.common_quant_param.portable and bits == FULL_BITS[-1],
    )
    per_channel = target.per_channel if full.per_channel is None else full.per_channel
    settings = FullSettings(
        method=_range_method(config),
        per_channel=per_channel,
        bias_correction=full.bias_correction,
        equalization=full.equalization,
        smooth_alpha=full.smooth_alpha,
        rounding=_full_rounding(full, bits, per_channel=per_channel),
        skip=skip,
        bits=bits,
        activation_bits=activation_bits,
    )
    if full.target_device is TargetDevice.ASCEND:
        size, channel = (_written(config, key) for key in ("min_quant_weight_size", "min_quant_weight_channel"))
        settings = replace(settings, min_size=size, min_channel=channel)
    inert = full.equalization and not per_channel and config.given("full_quant_param", "smooth_alpha")
    return Choice(settings, target, notes=(ONE_SCALE,) if inert else ())


def with_one_scale(settings: FullSettings, full: FullQuantParam) -> FullSettings:
    """Settings for kernels with one scale per weight, whatever the file asks for: equalization and rounding go by it."""
    return replace(settings, per_channel=False, rounding=_full_rounding(full, settings.bits, per_channel=False))


def _full_rounding(full: FullQuantParam, bits: int, *, per_channel: bool) -> Rounding:
    """The rounding that the file names, else the one that is fitted to samples where grids are coarse."""
    is_coarse = full.bias_correction and (not per_channel or bits < ADAPTIVE_BELOW_BITS)
    return full.rounding or (Rounding.ADAPTIVE if is_coarse else Rounding.NEAREST)


def _written(config: QuantizationConfig, key: str) -> int:
    """A limit below which weights stay float; 0 where the file does not set it."""
    return int(getattr(config.common_quant_param, key)) if config.given("common_quant_param", key) else 0


def _range_method(config: QuantizationConfig) -> str:
    """How ranges of activations are found: with 4 bits, the original's default would leave small values no step at all."""
    full = config.full_quant_param
    is_narrow = full.activation_bits is not Width.EIGHT
    if is_narrow and not config.given("full_quant_param", "activation_quant_method"):
        return ActivationQuantMethod.MSE.value
    return full.activation_quant_method.value


def _choose_weights(config: QuantizationConfig, skip: frozenset[str], *, has_samples: bool) -> Choice:
    common, weight = config.common_quant_param, config.weight_quant_param
    mixed = _mixed_bits(config, has_samples=has_samples) if common.bit_num == 0 else None
    is_said = config.given("common_quant_param", "min_quant_weight_channel")
    settings = WeightSettings(
        bits=common.bit_num if mixed is None else WIDE_BITS,
        per_channel=weight.per_channel,
        bias_correction=weight.bias_correction,
        rounding=_weight_rounding(config, has_samples=has_samples),
        min_size=common.min_quant_weight_size,
        min_channel=common.min_quant_weight_channel if is_said else None,
        skip=skip,
        mixed=mixed,
    )
    return Choice(settings, target_spec(TargetDevice.CPU.value))


def _mixed_bits(config: QuantizationConfig, *, has_samples: bool) -> MixedBits:
    """Widths are searched on request, or where there are samples and no ``init_scale`` is set."""
    mixed = config.mixed_bit_weight_quant_param
    is_silent = not config.given("mixed_bit_weight_quant_param", "init_scale")
    return MixedBits(
        init_scale=mixed.init_scale,
        search=mixed.auto_tune or (has_samples and is_silent),
        target_cosine=TUNED_COSINE if mixed.auto_tune else DATA_COSINE,
        max_iterations=mixed.max_iterations,
    )


def _weight_rounding(config: QuantizationConfig, *, has_samples: bool) -> Rounding:
    """How weight quantization rounds: as is written, else fitted to samples where that pays off.

    Raises:
        ConfigError: It is asked for and there are no samples.
    """
    weight = config.weight_quant_param
    is_gptq = weight.quant_strategy is WeightQuantStrategy.GPTQ
    rounding = Rounding.ADAPTIVE if is_gptq and weight.rounding is not Rounding.LEARNED else weight.rounding
    if rounding is None:
        pays = has_samples and config.common_quant_param.bit_num < ADAPTIVE_BELOW_BITS
        return Rounding.ADAPTIVE if pays else Rounding.NEAREST
    if rounding.is_fitted and not has_samples:
        raise ConfigError(
            "the rounding is fitted to calibration samples, and there are none",
            where=config.location("weight_quant_param", "quant_strategy" if is_gptq else "rounding"),
            hint="give samples, or remove the key",
        )
    return rounding


def _blocks(config: QuantizationConfig, model: ir.Model, vanished: frozenset[str]) -> Blocks | None:
    weight = config.weight_quant_param
    if weight.block_size is None:
        return None
    wide = named_nodes(config, EIGHT_BITS, model, vanished)
    return Blocks(int(weight.block_size.value), weight.symmetric, wide, weight.accuracy_level)


def named_nodes(
    config: QuantizationConfig, slot: tuple[str, str], model: ir.Model, vanished: frozenset[str]
) -> frozenset[str]:
    """Node names that a key refers to: by original node or tensor name, by pattern, or by operator.

    Raises:
        ConfigError: A name is unknown.
    """
    section, key = slot
    where = config.location(section, key) or key
    found: set[str] = set()
    problems = []
    for name in getattr(getattr(config, section), key):
        nodes = g.find_nodes(model.graph, name) or _matching(model.graph, name)
        if not nodes and name not in vanished:
            known = g.known_names(model.graph)
            what = "matches" if _is_pattern(name) else "is called"
            hint = did_you_mean(name, known) or ("; without quotes these are several names" if "," in name else "")
            problems.append(f"{where}: no node or tensor {what} {name!r}{hint}")
        found.update(node.name or "" for node in nodes)
    if problems:
        more = len(problems) - MOST_NAMED
        shown = (*problems[:MOST_NAMED], *([f"{where}: {more} more names"] if more > 0 else []))
        raise ConfigError(problems[0], where=where, problems=shown)
    return frozenset(found)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _matching(graph: ir.Graph, word: str) -> list[ir.Node]:
    """Nodes of this ONNX operator, or whose name, now or in the original, matches this pattern."""
    nodes = g.all_nodes(graph)
    if not _is_pattern(word):
        return [node for node in nodes if node.op_type == word]
    matches = re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in word)).fullmatch
    return [
        node for node in nodes if any(matches(str(name)) for name in {node.name, *node.meta.get(g.ALIASES, ())} if name)
    ]
