"""Configuration text, file or mapping -> :class:`QuantizationConfig`, or one error that lists every problem."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from converter_lite.config.checks import Facts, Slot, find_errors, find_warnings
from converter_lite.config.keys import Key, Kind, Section
from converter_lite.config.lines import Finding, Line, read_lines
from converter_lite.config.schema import FOREIGN_SECTIONS, SECTIONS, find_section, sections_with
from converter_lite.config.settings import GivenKey, QuantizationConfig, place
from converter_lite.config.values import parse_value, unquote
from converter_lite.errors import ConfigError, nearest, shorten
from converter_lite.system.files import open_regular

MAX_BYTES = 1 << 20
"""A configuration has a few dozen lines; what is larger is another file."""

NOTHING: Mapping[str, Mapping[str, str]] = MappingProxyType({})

MOST_CONTROLS = 20
"""Control characters of a text that is damaged here and there; each of its lines is named."""

QUOTED_PARTS = (Kind.DIRECTORIES, Kind.NAMES)
"""Kinds of values in which single quotes hold a part together, even if it is the only one."""

MAX_PROBLEMS = 100
"""Most problems that are listed one by one."""


def load_config(
    path: str | Path, *, external_data: bool = False, more: Mapping[str, Mapping[str, str]] = NOTHING
) -> QuantizationConfig:
    """Read and check a configuration file (UTF-8, with or without byte order mark).

    Args:
        path: The file; messages name it as given.
        external_data: The caller brings calibration samples itself, so FULL_QUANT needs no ``calibrate_path``.
        more: Section -> key -> text of settings beside those of the file, or instead of them.

    Raises:
        ConfigError: The file cannot be read, or its content is wrong; ``problems`` holds every finding.
    """
    name = str(path)
    try:
        with open_regular(Path(path)) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read the configuration: {reason}", where=name, hint="check configFile") from error
    _refuse_large(len(data), name)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigError("the configuration is UTF-16 text", where=name, hint="save it as UTF-8")
    if b"\0" in data and len(re.findall(rb"[\0-\x08\x0e-\x1f]", data)) > MOST_CONTROLS:
        raise ConfigError("this is a binary file, not a configuration", where=name, hint="name an INI file")
    # Comments may be of any encoding; read_lines reports bytes that are not UTF-8 elsewhere.
    return parse_config(data.decode("utf-8", "surrogateescape"), path=name, external_data=external_data, more=more)


def parse_config(
    text: str,
    *,
    path: str = "<string>",
    external_data: bool = False,
    more: Mapping[str, Mapping[str, str]] = NOTHING,
) -> QuantizationConfig:
    """Check the text of a configuration file; a section may be opened again as long as no key repeats.

    Raises:
        ConfigError: ``problems`` holds every finding, in file order.
    """
    _refuse_large(len(text), path)
    lines, findings = read_lines(text)
    builder = _Builder(path, findings)
    for line in lines:
        builder.add(line)
    builder.add_mapping(more)
    config = builder.build(external_data)
    if config.common_quant_param.quant_type is None:
        warning = f"{path}: nothing is quantized: no quant_type is given, the model stays in float"
        config = replace(config, warnings=(*config.warnings, warning))
    return config


def config_from_mapping(mapping: Mapping[str, Mapping[str, str]], *, external_data: bool = False) -> QuantizationConfig:
    """Check settings given as section -> key -> text; the same rules as for a file, comments excepted.

    Raises:
        ConfigError: ``problems`` holds every finding.
    """
    builder = _Builder("", [])
    builder.add_mapping(mapping)
    return builder.build(external_data)


def _refuse_large(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise ConfigError(
            f"the configuration is larger than {MAX_BYTES >> 10} KiB", where=name, hint="check configFile"
        )


@dataclass(slots=True)
class _Builder:
    """A configuration in the making.

    Attributes:
        findings: Errors.
        remarks: Warnings.
        entries: The line of each key that was written.
        headings: The first heading of each section, under the name that was meant.
        suspects: Keys that a misspelled or misplaced one may stand for.
        current: Section of the lines that follow; ``None`` if unknown or of no concern.
    """

    path: str
    findings: list[Finding]
    remarks: list[Finding] = field(default_factory=list)
    entries: dict[Slot, Line] = field(default_factory=dict)
    headings: dict[str, Line] = field(default_factory=dict)
    suspects: set[Slot] = field(default_factory=set)
    current: Section | None = None

    def add(self, line: Line) -> None:
        """Add a line: a heading, a key, or what a misspelled one may stand for."""
        if line.key is None:
            self._add_heading(line)
        elif line.section is None:
            self._add_stray_key(line, line.key)
        elif self.current is not None:
            self._add_key(line, self.current, line.key)

    def add_mapping(self, mapping: Mapping[str, Mapping[str, str]]) -> None:
        """Add settings that stand in no line of a file; they replace those that do."""
        for section, keys in mapping.items():
            self.add(Line(0, section, None))
            for key, text in keys.items():
                if isinstance(text, str):
                    self.add(Line(0, section, key, text.replace('"', "").strip()))
                else:
                    self.findings.append(Finding(0, section, key, f"must be text, not {type(text).__name__}"))

    def _add_heading(self, line: Line) -> None:
        name = line.section or ""
        self.current = find_section(name)
        if name in FOREIGN_SECTIONS:
            if name not in self.headings:
                self.remarks.append(Finding(line.number, name, "", FOREIGN_SECTIONS[name]))
        elif self.current is None:
            self._add_unknown_section(line.number, name)
        self.headings.setdefault(self.current.name if self.current else name, line)

    def _add_unknown_section(self, number: int, name: str) -> None:
        match = self._nearest(name, (*(section.name for section in SECTIONS), *FOREIGN_SECTIONS))
        hint = f"; did you mean [{match}]?" if match else ""
        self.findings.append(Finding(number, _cut(name), "", f"unknown section{hint}"))
        self.current = find_section(match)

    def _nearest(self, name: str, names: Iterable[str]) -> str:
        """The nearest name, as long as problems are still listed: matching is slow, and a wrong file has many."""
        return nearest(name, names) if len(self.findings) < MAX_PROBLEMS else ""

    def _add_stray_key(self, line: Line, key: str) -> None:
        owners = sections_with(key)
        hint = f"; it belongs to {' or '.join(f'[{owner}]' for owner in owners)}" if owners else ""
        self.findings.append(Finding(line.number, "", _cut(key), f"stands before any section{hint}"))
        self.suspects.update((owner, key) for owner in owners)

    def _add_key(self, line: Line, section: Section, key: str) -> None:
        slot = (section.name, key)
        if key in section.foreign_keys:
            self.remarks.append(Finding(line.number, section.name, key, section.foreign_keys[key]))
        elif section.find(key) is None:
            self._add_unknown_key(line, section, key)
        elif slot not in self.entries or not line.number:
            self.entries[slot] = line
        elif section.name == line.section:
            message = f"is given twice, first in line {self.entries[slot].number}: remove one"
            self.findings.append(Finding(line.number, section.name, key, message))

    def _add_unknown_key(self, line: Line, section: Section, key: str) -> None:
        match = self._nearest(key, [known.name for known in section.keys])
        owners = sections_with(key)
        hint = f"; it belongs to [{owners[0]}]" if owners else f"; did you mean {match}?" if match else ""
        self.findings.append(Finding(line.number, section.name, _cut(key), f"unknown key{hint}"))
        self.suspects.update((owner, key) for owner in owners)
        if match:
            self.suspects.add((section.name, match))

    def build(self, external_data: bool) -> QuantizationConfig:
        """The checked configuration.

        Raises:
            ConfigError: There is any finding.
        """
        values, invalid = self._typed_values()
        suspects = self.suspects - self.entries.keys()
        facts = Facts(
            values=values,
            given=frozenset(self.entries.keys() | suspects),
            unreliable=frozenset(invalid | suspects),
            sections=tuple(self.headings),
            external_data=external_data,
        )
        self.findings += [self._locate(*remark) for remark in find_errors(facts)]
        if self.findings:
            raise self._error()
        self.remarks += [self._locate(*remark) for remark in find_warnings(facts)]
        return self._config(values)

    def _typed_values(self) -> tuple[dict[Slot, object], set[Slot]]:
        values = {(section.name, key.name): key.default for section in SECTIONS for key in section.keys}
        invalid = set()
        for (section_name, key_name), line in self.entries.items():
            section = find_section(section_name)
            key = section.find(key_name) if section else None
            if key is None:
                continue
            text = line.text if key.kind in QUOTED_PARTS else unquote(line.text)
            try:
                if not text:
                    raise ValueError(_missing_value(key))
                values[section_name, key_name] = parse_value(key, text)
            except ValueError as error:
                invalid.add((section_name, key_name))
                self.findings.append(Finding(line.number, section_name, key_name, str(error)))
        return values, invalid

    def _locate(self, section: str, key: str, message: str) -> Finding:
        line = self.entries.get((section, key)) or self.headings.get(section)
        return Finding(line.number if line else 0, section, key, message)

    def _error(self) -> ConfigError:
        shown = [self._sentence(finding) for finding in sorted(self.findings, key=lambda finding: finding.line)]
        more = len(shown) - MAX_PROBLEMS
        problems = (*shown[:MAX_PROBLEMS], f"{self.path}: {more} more problems") if more > 0 else tuple(shown)
        count = "1 problem" if len(shown) == 1 else f"{len(shown)} problems"
        return ConfigError(f"{count} in the configuration", where=self.path, problems=problems)

    def _sentence(self, finding: Finding) -> str:
        where = place(self.path, finding.line, finding.section, finding.key)
        return f"{where}: {finding.message}" if where else finding.message

    def _config(self, values: Mapping[Slot, Any]) -> QuantizationConfig:
        settings = {
            section.name: section.settings(**{key.name: values[section.name, key.name] for key in section.keys})
            for section in SECTIONS
        }
        return QuantizationConfig(
            **settings,
            config_path=self.path,
            warnings=tuple(self._sentence(remark) for remark in sorted(self.remarks, key=lambda remark: remark.line)),
            given_keys=tuple(
                GivenKey(*slot, line.text, line.number)
                for slot, line in sorted(self.entries.items(), key=lambda entry: entry[1].number)
            ),
        )


def _missing_value(key: Key) -> str:
    if key.kind is Kind.DIRECTORIES:
        return f"has no value: give one, such as {key.example}"
    return f"has no value: give one, or remove the line{'' if key.default is None else ' to get the default'}"


def _cut(name: str) -> str:
    return name if len(name) <= 60 else shorten(name)
