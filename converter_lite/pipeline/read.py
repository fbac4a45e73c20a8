"""Reading the files of a request: the model, whatever its framework, and the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter_lite.config.settings import QuantizationConfig
from converter_lite.formats.registry import FRAMEWORKS
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.log import Log
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.system.encryption import reading_key


def read_source(request: ConvertRequest, *, static_shapes: Mapping[str, Sequence[int]]) -> Source:
    """Read the model of a request.

    Args:
        request: Framework and files.
        static_shapes: Shapes to build into the graph.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    reader = FRAMEWORKS[request.fmk]
    assert not isinstance(reader, str)  # a refusal, which the request raised
    confined = not request.allow_external_paths
    unsafe = request.allow_unsafe_models
    key = reading_key(request.decrypt_key, request.decrypt_mode)
    return reader.read_source(ModelFiles(request.model_file, request.weight_file, static_shapes, confined, unsafe, key))


OF_PICTURES = "has no effect unless input_type=IMAGE"
"""End of the warnings about keys that prepare pictures."""


def read_config(request: ConvertRequest, log: Log, *, trains: bool = False) -> QuantizationConfig | None:
    """The configuration of a request, with a warning for each key without effect; ``None`` where there is none.

    Args:
        request: It names the file, or has the configuration.
        log: Receives the warnings.
        trains: Whether there are pictures to train on beside those of the configuration.

    Raises:
        ConfigError: It cannot be read, or is wrong.
    """
    from converter_lite.config.checks import without_effect_on
    from converter_lite.config.parser import load_config

    if request.config is not None:
        config = request.config
    elif request.config_file is None:
        return None
    else:
        config = load_config(request.config_file, external_data=request.calibration_data is not None)
    for warning in (*config.warnings, *without_effect_on(config, request.save_type)):
        if not (trains and warning.endswith(OF_PICTURES)):
            log.warning(warning)
    return config
