"""From a configuration to the settings of an algorithm, checked against the graph."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.config.names import DynamicQuantStrategy, QuantType, Rounding, TargetDevice
from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import ConfigError
from converter_lite.quantization.dynamic import DynamicSettings
from converter_lite.quantization.full import FullSettings
from converter_lite.quantization.weight_only import WeightSettings
from converter_lite.suggest import did_you_mean
from converter_lite.targets import target_spec
from converter_lite.targets.spec import TargetSpec

Settings = FullSettings | WeightSettings | DynamicSettings


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm settings and the device they are for."""

    settings: Settings
    target: TargetSpec

    @property
    def is_gated(self) -> bool:
        """Whether the default quality gate holds: 8 bits and more, and no per-tensor weights."""
        if isinstance(self.settings, WeightSettings):
            return self.settings.bits >= 8 and self.settings.per_channel
        if isinstance(self.settings, FullSettings):
            return self.settings.per_channel
        return True


def choose(config: QuantizationConfig, model: ir.Model, vanished: frozenset[str]) -> Choice | None:
    """Settings of the quantization that a configuration asks for; ``None`` for a float conversion.

    Args:
        config: Checked configuration.
        model: Optimized graph, to resolve ``skip_quant_node``.
        vanished: Names that the optimizer removed with everything they did.

    Raises:
        ConfigError: ``skip_quant_node`` names nothing; every such name is listed with the nearest right one.
    """
    common = config.common_quant_param
    if common.quant_type is None:
        return None
    skip = skipped_nodes(config, model, vanished)
    if common.quant_type is QuantType.FULL_QUANT:
        full = config.full_quant_param
        target = target_spec(full.target_device.value)
        per_channel = target.per_channel if full.per_channel is None else full.per_channel
        method = full.activation_quant_method.value
        full_settings = FullSettings(
            method=method,
            per_channel=per_channel,
            bias_correction=full.bias_correction,
            equalization=full.equalization,
            smooth_alpha=full.smooth_alpha,
            adaptive_rounding=full.rounding is Rounding.ADAPTIVE,
            skip=skip,
        )
        return Choice(full_settings, target)
    target = target_spec(TargetDevice.CPU.value)
    if common.quant_type is QuantType.DYNAMIC_QUANT:
        strategy = config.dynamic_quant_param.quant_strategy
        return Choice(DynamicSettings(strategy is DynamicQuantStrategy.ALWC, skip), target)
    if common.bit_num == 0:
        raise ConfigError(
            "mixed-bit quantization (bit_num=0) is not available yet",
            where=config.location("common_quant_param", "bit_num"),
            hint="set bit_num to 1..16",
        )
    weight = config.weight_quant_param
    settings = WeightSettings(
        bits=common.bit_num,
        per_channel=weight.per_channel,
        bias_correction=weight.bias_correction,
        min_size=common.min_quant_weight_size,
        min_channel=common.min_quant_weight_channel,
        skip=skip,
    )
    return Choice(settings, target)


def skipped_nodes(config: QuantizationConfig, model: ir.Model, vanished: frozenset[str]) -> frozenset[str]:
    """Node names that ``skip_quant_node`` means, original node and tensor names resolved.

    Raises:
        ConfigError: A name is unknown.
    """
    where = config.location("common_quant_param", "skip_quant_node")
    found: set[str] = set()
    problems = []
    for name in config.common_quant_param.skip_quant_node:
        nodes = g.find_nodes(model.graph, name)
        if not nodes and name not in vanished:
            known = g.known_names(model.graph)
            problems.append(f"{where}: no node or tensor is called {name!r}{did_you_mean(name, known)}")
        found.update(node.name or "" for node in nodes)
    if problems:
        raise ConfigError(problems[0], where=where, problems=tuple(problems))
    return frozenset(found)
