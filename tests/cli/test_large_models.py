"""What happens to models that are larger than memory, with the limits made small."""

import pytest

from converter_lite.formats.onnx import writer
from converter_lite.quantization import plan
from converter_lite.runtime import blocks
from tests.cli.workshop import WEIGHT, Workshop, changed


@pytest.mark.parametrize("bits", ["4", "8"])
def test_weights_rounded_while_they_are_written_give_the_same_file(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, bits: str
) -> None:
    config = changed(WEIGHT, common_quant_param={"bit_num": bits}, weight_quant_param={"bias_correction": "false"})
    workshop.succeed(config=config, output="eager")
    monkeypatch.setattr(plan, "LAZY_FROM", 1)
    workshop.succeed(config=config, output="lazy")
    content = workshop.content()
    assert content["lazy.onnx"] == content["eager.onnx"]


def test_a_model_is_proven_block_by_block_on_fewer_samples(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, limit in (
        (blocks, "BLOCKWISE_FROM", 1),
        (blocks, "BLOCK_VALUES", 100),
        (writer, "SINGLE_FILE_LIMIT", 1),
        (writer, "EXTERNAL_FROM", 1),
        (plan, "LAZY_FROM", 1),
    ):
        monkeypatch.setattr(module, name, limit)
    outcome = workshop.succeed(config=WEIGHT)
    assert "compared with the float model on 2 random samples" in outcome.out
    assert (workshop.folder / "out.onnx.data").is_file()
