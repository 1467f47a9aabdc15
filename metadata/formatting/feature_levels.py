"""The feature levels of a new cluster: Kafka's table of levels, and the choice that options and a release make.

A level that Kafka knows and this release cannot run is refused by name; by default such a feature stays at the level
it can run. Sources: Kafka's ``Feature``, ``MetadataVersion``, ``Formatter``; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from stratalog.metadata.image.features import METADATA_VERSION, SUPPORTED_FEATURES
from stratalog.metadata.quorum.checkpoint import KRAFT_VERSION_MAX
from stratalog.wire.errors import Invalid

__all__ = ["KRAFT_VERSION", "chosen_levels", "metadata_version_name", "parse_feature"]

KRAFT_VERSION: Final = "kraft.version"

_RELEASES: Final[Mapping[int, tuple[str, int]]] = MappingProxyType(
    {
        level: (release, number)
        for release, levels in (
            ("3.3", {3: 7}),
            ("3.4", {0: 8}),
            ("3.5", {0: 9, 1: 10, 2: 11}),
            ("3.6", {0: 12, 1: 13, 2: 14}),
            ("3.7", {0: 15, 1: 16, 2: 17, 3: 18, 4: 19}),
            ("3.8", {0: 20}),
            ("3.9", {0: 21}),
            ("4.0", {0: 22, 1: 23, 2: 24, 3: 25}),
            ("4.1", {0: 26, 1: 27}),
            ("4.2", {0: 28, 1: 29}),
            ("4.3", {0: 30}),
        )
        for number, level in levels.items()
    }
)
"""The stable levels of metadata.version: release and number of its internal version."""


class _Feature(NamedTuple):
    """A feature of Kafka beside metadata.version."""

    default_from: tuple[int, ...]
    """For each level, the metadata.version from which a new cluster has it."""
    runs: int
    """The highest level that this release can run."""
    needs: int = 0
    """The metadata.version below which levels above 0 cannot be."""

    @property
    def highest(self) -> int:
        return len(self.default_from) - 1


def _runs(name: str) -> int:
    levels = SUPPORTED_FEATURES.get(name)
    return 0 if levels is None else levels.maximum


_FEATURES: Final[Mapping[str, _Feature]] = MappingProxyType(
    {
        "eligible.leader.replicas.version": _Feature((7, 26), _runs("eligible.leader.replicas.version"), needs=23),
        "group.version": _Feature((7, 22), _runs("group.version")),
        KRAFT_VERSION: _Feature((7, 21), KRAFT_VERSION_MAX),
        "share.version": _Feature((7, 28), _runs("share.version")),
        "streams.version": _Feature((7, 29), _runs("streams.version")),
        "transaction.version": _Feature((7, 24, 24), _runs("transaction.version")),
    }
)


def metadata_version_name(level: int) -> str:
    """The name of a level of metadata.version: ``4.3-IV0``; the number itself for one without a name."""
    release, number = _RELEASES.get(level, ("", 0))
    return f"{release}-IV{number}" if release else str(level)


def parse_feature(text: str) -> tuple[str, int]:
    """Name and level of ``NAME=LEVEL``. Raises `Invalid` with Kafka's sentence."""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise Invalid(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.isascii() or not level.isdigit() or len(level) > 5 or int(level) >= 1 << 15:
        raise Invalid(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name, int(level)


def chosen_levels(
    features: Sequence[str], release_version: str | None, *, has_dynamic_quorum: bool
) -> Mapping[str, int]:
    """The level of every feature of the new cluster, by name; 0 for one that is not used.

    ``features`` are the texts of ``--feature``, ``release_version`` is that of ``--release-version``. Raises `Invalid`
    for a feature that is not known, a level that does not exist or cannot be run here, and choices that do not fit.
    """
    asked = dict(map(parse_feature, features))
    version = _metadata_version(asked.pop(METADATA_VERSION, None), release_version)
    unknown = [name for name in asked if name not in _FEATURES]
    if unknown:
        known = ", ".join(sorted([METADATA_VERSION, *_FEATURES]))
        raise Invalid(f"Unsupported feature: {unknown[0]}. Supported features are: {known}")
    levels = {METADATA_VERSION: version}
    for name, feature in _FEATURES.items():
        if name == KRAFT_VERSION:
            levels[name] = _kraft_version(asked.get(name), has_dynamic_quorum)
        else:
            levels[name] = asked.get(name, _default(feature, version))
        _check(name, feature, levels[name], version)
    return MappingProxyType(levels)


def _default(feature: _Feature, version: int) -> int:
    by_release = max(level for level, since in enumerate(feature.default_from) if since <= version)
    return min(by_release, feature.runs)


def _check(name: str, feature: _Feature, level: int, version: int) -> None:
    if level > feature.highest:
        raise Invalid(f"No feature:{name} with feature level {level}; its levels are 0 to {feature.highest}")
    if level > feature.runs:
        raise Invalid(
            f"{name} could not be set to {level}: Kafka knows that level, this release runs {name} up to level "
            f"{feature.runs}; leave the option out"
        )
    if level and version < feature.needs:
        raise Invalid(
            f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {feature.needs}"
        )


def _metadata_version(level: int | None, release_version: str | None) -> int:
    supported = SUPPORTED_FEATURES[METADATA_VERSION]
    if level is not None and release_version is not None:
        raise Invalid(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    if release_version is not None:
        return _by_name(release_version)
    if level is None:
        return supported.maximum
    if not supported.minimum <= level <= supported.maximum:
        raise Invalid(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from {supported.minimum} to "
            f"{supported.maximum}."
        )
    return level


def _by_name(text: str) -> int:
    """The level of ``4.3``, ``4.3.1`` or ``4.3-IV0``; a release without a number means its last one."""
    parts = text.split(".")
    key = text if len(parts) <= 2 else ".".join(parts[:2])
    levels = [level for level, (release, _) in _RELEASES.items() if key in (release, metadata_version_name(level))]
    if not levels:
        known = ", ".join(map(metadata_version_name, _RELEASES))
        raise Invalid(f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}")
    return max(levels)


def _kraft_version(asked: int | None, has_dynamic_quorum: bool) -> int:
    if asked is None:
        return int(has_dynamic_quorum)
    if asked == 0 and has_dynamic_quorum:
        raise Invalid(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing "
            "the --feature flag for kraft.version."
        )
    if asked and not has_dynamic_quorum:
        raise Invalid(
            f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and one of the flags "
            "--standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, "
            "try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )
    return asked
