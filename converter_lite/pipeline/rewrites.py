"""Which rewrites of the graph a conversion does without: ``--optimize`` and ``[registry]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from converter_lite.config.names import Switch
from converter_lite.config.settings import QuantizationConfig
from converter_lite.errors import ConfigError, TargetError, did_you_mean
from converter_lite.log import Log
from converter_lite.passes.pipeline import RULE_NAMES, Rewrites
from converter_lite.passes.vendor_names import OUR_RULES, WITHOUT_COUNTERPART

UNOPTIMIZED = (
    "--optimize=general (and disable_fusion=off) makes such nodes constant, or their shapes known, in many models"
)
"""What to do about a graph that a format refuses as it is."""


@contextmanager
def advised(rewrites: Rewrites) -> Iterator[None]:
    """A refusal of a graph that was not optimized says so.

    Raises:
        TargetError: The refusal.
    """
    try:
        yield
    except TargetError as error:
        if rewrites.level == "none":
            error.hint = "; ".join(filter(None, [error.hint, UNOPTIMIZED]))
        raise


def chosen_rewrites(level: str, config: QuantizationConfig | None, log: Log) -> Rewrites:
    """What ``--optimize`` and a configuration leave of the optimization.

    Raises:
        ConfigError: ``fusion_blacklists`` names something that is no rewrite, here or in the original.
    """
    if config is None:
        return Rewrites(level)
    without: set[str] = set()
    problems = []
    where = config.location("registry", "fusion_blacklists")
    for name in config.registry.fusion_blacklists:
        if name in WITHOUT_COUNTERPART:
            log.warning(f"{where}: no rewrite here does what {name} does: no effect")
        elif name in OUR_RULES or name in RULE_NAMES:
            without.update(OUR_RULES.get(name, (name,)))
        else:
            hint = did_you_mean(name, (*OUR_RULES, *RULE_NAMES))
            problems.append(f"{where}: no rewrite is called {name!r}{hint}")
    if problems:
        raise ConfigError(problems[0], where=where, problems=tuple(problems))
    is_off = config.registry.disable_fusion is Switch.ON
    if without and (is_off or level == "none"):
        reason = "disable_fusion=on" if is_off else "--optimize=none"
        log.warning(f"{where}: has no effect with {reason}, which leaves out all rewrites")
    return Rewrites("none" if is_off else level, frozenset(without))
