"""The sections of a configuration: one dataclass each, one attribute per key, named as in the file."""
