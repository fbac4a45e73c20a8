"""What configurations are declared with: keys, sections, and where they have an effect."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from converter_lite.config.names import QuantType, TargetDevice, Word

MAX_UINT16 = 65535
"""Upper bound of counts and sizes in the original (measured)."""


class Kind(enum.Enum):
    """Kind of a value; the text names it in the documentation's tables."""

    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "true, false"
    CHOICE = "word"
    TEXT = "text"
    NAMES = "name,name,..."
    NUMBERS = "[x,y,...]"
    DIRECTORIES = "input:directory,..."
    SHAPES = "input:[dims];..."
    DIM_RANGES = "[a~b],[c],..."


@dataclass(frozen=True, slots=True)
class Condition:
    """Another key must have this value; ``None``: any that is written."""

    section: str
    key: str
    value: object = None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.key} is set"
        value = self.value.value if isinstance(self.value, enum.Enum) else str(self.value).lower()
        return f"{self.key}={value}"

    def holds(self, found: object) -> bool:
        """Whether a value is such a one."""
        return found is not None if self.value is None else found == self.value


@dataclass(frozen=True, slots=True)
class Use:
    """A kind of run that reads a key: quant type, targets (none = every target), and further conditions."""

    quant_type: QuantType
    targets: tuple[TargetDevice, ...] = ()
    when: tuple[Condition, ...] = ()


WEIGHT = QuantType.WEIGHT_QUANT
FULL = QuantType.FULL_QUANT
DYNAMIC = QuantType.DYNAMIC_QUANT

EVERY_TYPE = (Use(WEIGHT), Use(FULL), Use(DYNAMIC))
EVERY_CONVERSION: tuple[Use, ...] = ()
"""Uses of sections that have an effect without quantization, too."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        default: Typed value if the key is not written; ``None`` or ``()`` mean "not set".
        low, high: Bounds; for ``FLOAT`` both are excluded, for ``INTEGER`` both are included.
        choices: Enumeration of the words that a ``CHOICE`` takes.
        aliases: (other spelling, word).
        uses: Where the key has an effect; ``None`` = as the section.
        formats: Output formats (``--saveType``) on which it has an effect; none = all.
        inert: Why the key of the original has no effect here; empty if it has.
        example: Text for templates where the default is "not set".
        is_ours: The original does not know the key.
    """

    name: str
    kind: Kind
    default: object
    help: str
    low: float = 0
    high: float = MAX_UINT16
    choices: type[enum.Enum] | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    uses: tuple[Use, ...] | None = None
    formats: tuple[str, ...] = ()
    inert: str = ""
    example: str = ""
    is_ours: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a ``CHOICE``."""
        return tuple(str(choice.value) for choice in self.choices) if self.choices else ()

    @property
    def own_words(self) -> tuple[str, ...]:
        """Those that the original does not know."""
        return tuple(str(choice.value) for choice in self.choices or () if isinstance(choice, Word) and choice.is_ours)


@dataclass(frozen=True, slots=True)
class Section:
    """One section.

    Attributes:
        settings: Dataclass of its typed values.
        is_quantization: Its presence means that ``quant_type`` must be given.
        together: Groups of keys that are given all or not at all.
        uses: Where its keys have an effect; none = in every conversion, with or without quantization.
        foreign_keys: Keys of the original that are known, accepted and without effect: key -> why.
    """

    name: str
    settings: type[Any]
    help: str
    keys: tuple[Key, ...]
    uses: tuple[Use, ...]
    is_quantization: bool = True
    together: tuple[tuple[str, ...], ...] = ()
    foreign_keys: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Key | None:
        """The key of this name."""
        return next((key for key in self.keys if key.name == name), None)

    def uses_of(self, key: Key) -> tuple[Use, ...]:
        """Where a key of this section has an effect."""
        return self.uses if key.uses is None else key.uses


def key(kind: Kind, default: object, help: str, **more: Any) -> Any:
    """An attribute of a section's dataclass: a key of the same name.

    Args:
        kind: Kind of its value.
        default: Typed value if it is not written.
        help: Sentences for the documentation.
        **more: Further attributes of :class:`Key`.
    """
    return field(default=default, metadata={"key": Key("", kind, default, help, **more)})


def section(settings: type[Any], help: str, uses: tuple[Use, ...], **more: Any) -> Section:
    """The section whose keys are the attributes of a dataclass: ``CommonQuantParam`` is ``[common_quant_param]``.

    Args:
        settings: The dataclass.
        help: Sentence for the documentation.
        uses: Where its keys have an effect.
        **more: Further attributes of :class:`Section`.
    """
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", settings.__name__).lower()
    keys = tuple(replace(found.metadata["key"], name=found.name) for found in fields(settings))
    return Section(name, settings, help, keys, uses, **more)
