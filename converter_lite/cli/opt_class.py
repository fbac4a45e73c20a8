"""``Opt``: the methods of Paddle-Lite's class of this name, which are the flags of the command ``opt``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from converter_lite import __version__
from converter_lite.cli.opt import cli
from converter_lite.cli.opt_arguments import normalize
from converter_lite.cli.opt_listings import draw
from converter_lite.errors import ModelError, UsageError


class Opt:
    """Set what ``opt`` is to do, then call :meth:`run`. Each method is the flag of the same name.

    All methods that do something raise a ``ConverterError`` where the command would fail, with the sentence that it would print.
    """

    def __init__(self) -> None:
        self._flags: dict[str, str] = {}

    def set_model_dir(self, model_dir: str) -> None:
        """Directory of a Paddle model."""
        self._flags["model_dir"] = model_dir

    def set_modelset_dir(self, model_set_dir: str) -> None:
        """Directory of model directories."""
        self._flags["model_set_dir"] = model_set_dir

    def set_model_file(self, model_file: str) -> None:
        """Program file of a Paddle model, or an ONNX file."""
        self._flags["model_file"] = model_file

    def set_param_file(self, param_file: str) -> None:
        """File with all parameters of a Paddle model."""
        self._flags["param_file"] = param_file

    def set_model_type(self, optimize_out_type: str) -> None:
        """``naive_buffer`` or ``protobuf``."""
        self._flags["optimize_out_type"] = optimize_out_type

    def set_optimize_out(self, optimize_out: str) -> None:
        """Path of the result."""
        self._flags["optimize_out"] = optimize_out

    def set_valid_places(self, valid_places: str) -> None:
        """Targets, separated by commas."""
        self._flags["valid_targets"] = valid_places

    def set_quant_model(self, quant_model: bool) -> None:
        """Whether weights are stored as integers."""
        self._flags["quant_model"] = _switch(quant_model)

    def set_quant_type(self, quant_type: str) -> None:
        """``QUANT_INT8`` or ``QUANT_INT16``."""
        self._flags["quant_type"] = quant_type

    def enable_fp16(self) -> None:
        """Compute in float16 where there are kernels for it."""
        self._flags["enable_fp16"] = "true"

    def set_sparse_model(self, sparse_model: bool) -> None:
        """Whether 1x1 convolutions are stored without the zeros of their weights."""
        self._flags["sparse_model"] = _switch(sparse_model)

    def set_sparse_threshold(self, sparse_threshold: float) -> None:
        """Least share of zeros for that."""
        self._flags["sparse_threshold"] = str(sparse_threshold)

    def record_model_info(self, record_strip_info: bool) -> None:
        """Whether the operators and kernels of the result are listed for tailoring."""
        self._flags["record_tailoring_info"] = _switch(record_strip_info)

    def set_passes_internal(self, passes: Sequence[str] = ()) -> None:
        """A list of graph passes: only an empty one, since those of the original do not exist here.

        Raises:
            UsageError: It names a pass.
        """
        if passes:
            raise UsageError(
                "the passes of the original's opt do not exist here",
                where=f"set_passes_internal({list(passes)!r})",
                hint="leave the call out",
            )

    def run(self) -> None:
        """Convert the model, or the set of models."""
        if not self._flags:
            raise UsageError("there is no model", where="Opt.run()", hint="call set_model_dir or set_model_file")
        self._do()

    def run_optimize(
        self, model_dir: str, model_file: str, param_file: str, model_type: str, valid_places: str, optimize_out: str
    ) -> None:
        """All of it in one call; an empty text leaves out what it stands for."""
        names = ("model_dir", "model_file", "param_file", "optimize_out_type", "valid_targets", "optimize_out")
        values = (model_dir, model_file, param_file, model_type, valid_places, optimize_out)
        self._flags.update({name: value for name, value in zip(names, values, strict=True) if value})
        self.run()

    def check_if_model_supported(self, print_ops: bool = True) -> None:
        """Refuse a model with operators that the targets lack; prints the operators.

        Raises:
            ModelError: There are such operators; their names are printed.
        """
        del print_ops  # the table is short, and the original prints it for an unsupported model in any case
        self._do(print_model_ops="true")

    def print_supported_ops(self) -> None:
        """Print the operators of the targets."""
        self._do(print_supported_ops="true")

    def print_all_ops(self) -> None:
        """Print all operators and targets."""
        self._do(print_all_ops="true")

    def print_all_ops_in_md_dormat(self) -> None:
        """The same in Markdown; the original spells it like this."""
        self._do(print_all_ops_in_md_format="true")

    def display_kernels_info(self) -> None:
        """Print the operators that have kernels."""
        self._do(display_kernels="true")

    def visualize_optimized_nb_model(self, nb_model_path: str, output_path: str) -> list[str]:
        """Draw a ``.nb`` file; returns the names of the drawings."""
        return draw(nb_model_path, output_path)

    def version(self) -> str:
        """Version of this package."""
        return f"converter_lite {__version__}"

    def help(self) -> None:
        """Print the flags of the command, which are the methods of this class."""
        click.echo(cli.get_help(click.Context(cli, info_name="opt")))

    executablebin_help = help

    def _do(self, **more: str) -> None:
        arguments = normalize([f"--{name}={value}" for name, value in {**self._flags, **more}.items()])
        try:
            with cli.make_context("opt", arguments) as context:
                status = cli.invoke(context)
        except click.ClickException as error:
            raise UsageError(error.format_message(), where="Opt") from error
        if status:
            raise ModelError("the targets cannot run this model", where="Opt", hint="what it lacks is printed above")


def _switch(value: bool) -> str:
    return "true" if value else "false"
