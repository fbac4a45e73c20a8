"""INI configuration: one declarative table, its parser, and the templates made from it."""

from __future__ import annotations

from converter_lite.config.parser import config_from_mapping, load_config, parse_config
from converter_lite.config.settings import QuantizationConfig

__all__ = ["QuantizationConfig", "config_from_mapping", "load_config", "parse_config"]
