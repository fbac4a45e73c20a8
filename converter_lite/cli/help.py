"""``converter_lite --help``: an example, the first steps, and the flags in groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import click

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Required": ("fmk", "modelFile", "outputFile"),
        "Model": ("weightFile", "inputShape", "inputValue", "optimize", "allowExternalPaths", "allowUnsafeModels"),
        "Quantization": ("configFile", "inputDataFormat", "plan", "savePlan", "dryRun"),
        "Output": ("saveType", "inputDataType", "outputDataType", "outputDataFormat", "fp16"),
        "One output format": ("msCompat", "uint8Weights", "keepMetadata", "nbTarget", "nbFp16"),
        "Encryption": ("decryptKey", "decryptMode", "encryption", "encryptKey"),
        "Quality": ("minCosine", "minSpeedup", "proofData", "infer", "preview", "report", "json"),
        "Speed": ("threads", "cache", "executor"),
        "Messages": ("verbose", "quiet", "version", "help"),
    }
)
"""Title -> flags of a conversion, without dashes."""

FIRST_STEPS = (
    ("converter_lite template full_quant > full_quant.cfg", "prints a configuration; set calibrate_path in it"),
    ("converter_lite doctor model.onnx full_quant.cfg", "says what would be quantized, and what is missing"),
)

COLUMN = 30
"""Width of the spellings in all groups; behind a longer one the meaning begins a line of its own."""

EXAMPLE = "converter_lite --fmk=ONNX --modelFile=model.onnx --outputFile=model_int8 --configFile=full_quant.cfg"


class GroupedHelp(click.Group):
    """A group whose own flags are listed by :data:`GROUPS`, behind an example."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Both forms of the command."""
        formatter.write_usage(ctx.command_path, "--fmk=NAME --modelFile=PATH --outputFile=PATH [FLAGS]")
        formatter.write_usage(ctx.command_path, "COMMAND [FLAGS]", prefix="       ")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What the command does, the first steps and an example."""
        super().format_help_text(ctx, formatter)
        with formatter.section("First steps"):
            for line, meaning in FIRST_STEPS:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                formatter.write(f"{'':>{formatter.current_indent}}  {meaning}\n")
        with formatter.section("Example"):
            formatter.write(f"{'':>{formatter.current_indent}}{EXAMPLE}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags, group by group, and the commands."""
        for title, records in grouped(self, ctx):
            with formatter.section(title):
                formatter.write_dl([(spelling.ljust(COLUMN), text) for spelling, text in records], col_max=COLUMN)
        self.format_commands(ctx, formatter)


def grouped(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Title of a group, and spelling and meaning of each of its flags."""
    known = {max(parameter.opts, key=len).removeprefix("--"): parameter for parameter in command.get_params(ctx)}
    for title, names in GROUPS.items():
        records = [known[name].get_help_record(ctx) for name in names]
        yield title, [record for record in records if record is not None]
