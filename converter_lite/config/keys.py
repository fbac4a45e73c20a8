"""Row types of the configuration table: key, section, and where they have an effect."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        default: Typed value if the key is not written; ``None`` or ``()`` mean "not set".
        low, high: Bounds; for ``FLOAT`` both are excluded, for ``INTEGER`` both are included.
        choices: Enumeration of the words that a ``CHOICE`` takes.
        aliases: (other spelling, word).
        refused: (known text, why it is refused).
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
    refused: tuple[tuple[str, str], ...] = ()
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
        is_quantization: Its presence means that ``quant_type`` must be given.
        together: Groups of keys that are given all or not at all.
        uses: Where its keys have an effect; none = in every conversion, with or without quantization.
        foreign_keys: Keys of the original that are known, accepted and without effect: key -> why.
    """

    name: str
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
