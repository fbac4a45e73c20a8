"""The kernels of the released CPU libraries, and the string by which a file requests one."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KERNEL_ATTRIBUTE = "__@kernel_type_attr@__"
"""Attribute that names the kernel of an operator."""

RELEASES = {"0": "2.10", "2": "2.12", "3": "2.13rc0"}
"""Releases in the registry, by their mark."""


RESULTS = ("Out", "Output", "Y")
"""Slots of the values that a float16 kernel computes."""


class Target(enum.Enum):
    """Processor family of a file; the value is the number in kernel strings."""

    HOST = 1
    X86 = 2
    ARM = 4

    @classmethod
    def parse(cls, name: str) -> Target:
        """``arm``, ``x86`` or ``host``.

        Raises:
            ValueError: Another name.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            raise ValueError(f"target {name!r} is not arm, x86 or host") from None


class Precision(enum.IntEnum):
    """Number of a kernel's precision."""

    FLOAT = 1
    INT8 = 2
    INT32 = 3
    ANY = 4
    FP16 = 5
    BOOL = 6
    INT64 = 7


@dataclass(frozen=True, slots=True)
class Kernel:
    """One registered kernel; ``releases`` are marks of :data:`RELEASES`."""

    target: int
    precision: int
    layout: int
    alias: str
    releases: str

    def key(self, operator: str) -> str:
        """Value of the kernel attribute."""
        return f"{operator}/{self.alias}/{self.target}/{self.precision}/{self.layout}"


_ALIASES = {
    "float32": ("def", "float32", "fp32", "def_float", "flip_fp32"),
    "int64": ("int64", "def_int64", "i64", "int64_def", "reduce_prod_i64", "flip_i64"),
    "int32": ("int32", "def_int32", "int32_slice", "i32", "int32_def", "int32_mod"),
    "bool": ("def_bool", "bool_slice"),
}
_PRECISIONS = {"any": Precision.ANY, "int64": Precision.INT64, "int32": Precision.INT32, "bool": Precision.BOOL}


@cache
def _registry() -> dict[str, str]:
    """Operator -> its line of the registry, without the name."""
    lines = Path(__file__).with_name("registry.txt").read_text("ascii").splitlines()
    pairs = (line.partition(" ") for line in lines if not line.startswith("#"))
    return {operator: entries for operator, _, entries in pairs}


def operators() -> list[str]:
    """Operators that have a kernel on ARM, x86 or Host in some release, sorted."""
    return sorted(_registry())


@cache
def kernels_of(operator: str) -> tuple[Kernel, ...]:
    """Kernels of an operator for targets ARM, x86 and Host; none for an unknown one."""
    return tuple(_kernel(entry) for entry in _registry().get(operator, "").split())


def _kernel(entry: str) -> Kernel:
    place, _, releases = entry.partition("@")
    target, precision, layout, alias = place.split("/", 3)
    return Kernel(int(target), int(precision), int(layout), alias, releases or "".join(RELEASES))


def choose(operator: str, target: Target, *, dtype: str = "float32", alias: str | None = None) -> Kernel | None:
    """The best kernel for data of ``dtype``, or ``None`` when no release has one.

    Kernels that all releases have come first, then the target's own before Host's. With ``alias`` given,
    only kernels of that name count; ``dtype`` is ``any`` where a kernel takes all data.
    """
    places = [target.value, Target.HOST.value]
    found = [kernel for kernel in kernels_of(operator) if kernel.target in places]
    if alias is not None:
        fitting = [k for k in found if k.alias == alias]
    else:
        fitting = [k for k in found if _fits(k, dtype)]
    return min(fitting, key=lambda k: (-len(k.releases), places.index(k.target), k.precision), default=None)


def _fits(kernel: Kernel, dtype: str) -> bool:
    if kernel.precision in (Precision.INT8, Precision.FP16):
        return False
    wanted = _PRECISIONS.get(dtype, Precision.FLOAT)
    if kernel.alias == "def" and kernel.precision in (wanted, Precision.ANY):
        return True
    return kernel.alias in _ALIASES.get(dtype, ()) and kernel.precision in (Precision.FLOAT, Precision.ANY, wanted)


def exists(operator: str, key: str, release: str) -> bool:
    """Whether a release resolves the kernel string ``key`` of ``operator`` (the library's own search rules).

    Source: docs/formats/paddle_nb.md, choice of kernels.
    """
    parts = key.split("/")
    if len(parts) != 5 or parts[0] != operator or not all(part.isdigit() for part in parts[2:]):
        return False
    target, precision, layout = (int(part) for part in parts[2:])
    places = [target, Target.HOST.value] if target == Target.ARM.value else [target]
    return any(
        kernel.target in places
        and kernel.alias == parts[1]
        and kernel.precision in (precision, Precision.ANY)
        and kernel.layout in (layout, 2)
        and release in kernel.releases
        for kernel in kernels_of(operator)
    )
