"""A broker's configuration: settings from a file, the environment and the command line as one frozen, typed value.

Later places win over earlier ones: Kafka's and our defaults, the file, the environment, ``--set``, the flags
``--data --bucket --listen --http``. The environment stands above the file because a stock ``server.properties``
already names most settings, and a container's variable is meant to change them. Where each value came from is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from stratalog.broker.settings.bucket_options import bucket_options, misplaced_settings
from stratalog.broker.settings.environment import environment_settings
from stratalog.broker.settings.file import ConfigFileError, Setting, parse_config_file
from stratalog.broker.settings.listeners import (
    Listener,
    ListenerError,
    SecurityProtocol,
)
from stratalog.broker.settings.roles import NodeListeners, controller_address, node_listeners, told_controllers
from stratalog.metadata.settings.by_name import IGNORED_PREFIXES, is_security
from stratalog.metadata.settings.cluster_roles import ClusterRoles, cluster_roles, role_notices, role_problems
from stratalog.metadata.settings.configs import (
    ConfigError,
    ConfigValue,
    broker_problems,
    definitions,
    describe_unknown,
    format_value,
)
from stratalog.metadata.settings.listener_settings import LISTENER_PREFIX, listener_definition
from stratalog.wire.address import AddressError, parse_address
from stratalog.wire.errors import Invalid

__all__ = ["BrokerConfig", "ConfigRefused", "ConfigRow", "Flags", "load_config", "parse_assignment"]

DEFAULT_ORIGIN: Final = "default"
_BUCKET_URL: Final = re.compile(r"memory:[^/]*|file://(localhost)?/.*|(?!file:)[a-z][a-z0-9+.-]*://[^/].*", re.DOTALL)


class ConfigRefused(Invalid):
    """A broker cannot start with these settings; ``problems`` says everything that is wrong, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Flags(Struct, frozen=True, kw_only=True):
    """The command line's short names for settings; None where a flag is not given."""

    data: str | None = None
    bucket: str | None = None
    listen: str | None = None
    http: str | None = None

    def settings(self) -> list[Setting]:
        """The settings they stand for. Raises `AddressError` for ``--listen`` that is no address."""
        found = []
        if self.data is not None:
            found.append(Setting("log.dirs", self.data, "--data"))
        if self.bucket is not None:
            found.append(Setting("stratalog.bucket.url", self.bucket, "--bucket"))
        if self.listen is not None:
            host, port = parse_address(self.listen, "--listen")
            listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, host, port)
            found.append(Setting("listeners", str(listener), "--listen"))
        if self.http is not None:
            found.append(Setting("stratalog.http.listener", self.http, "--http"))
        return found


class ConfigRow(Struct, frozen=True):
    """One setting as ``--print-config`` shows it; the text of a secret is hidden."""

    name: str
    text: str | None
    origin: str


class BrokerConfig(Struct, frozen=True, kw_only=True):
    """The whole configuration of a broker. Directories are absolute; an
    advertised port of 0 means the port that was bound.
    """

    node_id: int
    roles: ClusterRoles
    """Broker, controller or both, and the quorum that the node belongs to."""
    rack: str | None
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    listeners: tuple[Listener, ...]
    """Where clients are served."""
    advertised_listeners: tuple[Listener, ...]
    """The addresses that clients get, one for each of :attr:`listeners` that is advertised."""
    controller_listeners: tuple[Listener, ...]
    """Where brokers and other controllers are served: those that ``controller.listener.names`` names. Clients do not hear
    of them."""
    told_controller_listeners: tuple[Listener, ...]
    """The same as other nodes reach them."""
    controller_address: tuple[str, int] | None
    """Host and port at which other nodes reach the first of them; None for a node without one."""
    http_host: str
    http_port: int
    tiering_enabled: bool
    bucket_url: str
    bucket_options: Mapping[str, Any]
    """Further arguments of the store: ``endpoint_url``, ``region``."""
    cache_dir: str
    cache_bytes_max: int
    values: Mapping[str, ConfigValue]
    """Every broker setting, typed."""
    static: Mapping[str, str]
    """The texts that were given, by name: what topic settings take their defaults from (`ConfigResolver`)."""
    origins: Mapping[str, str]
    """Where each of them came from: a file and line, a variable, a flag."""
    notices: tuple[str, ...]
    """One line for each setting that was given and changes nothing, to be logged."""

    @property
    def metadata_only_dir(self) -> str | None:
        """The directory of the metadata log, if no topics may lie there."""
        return None if self.metadata_log_dir in self.log_dirs else self.metadata_log_dir

    def integer(self, name: str) -> int:
        """A whole-number setting."""
        value = self.values[name]
        assert isinstance(value, int), name
        return value

    def boolean(self, name: str) -> bool:
        """A true-or-false setting."""
        value = self.values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str | None:
        """A text setting; None where it is not set."""
        value = self.values[name]
        assert value is None or isinstance(value, str), name
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list setting."""
        value = self.values[name]
        assert isinstance(value, tuple), name
        return value

    def rows(self) -> list[ConfigRow]:
        """Every setting with its value and origin, by name."""
        return [
            ConfigRow(name, format_value(value), self.origins.get(name, DEFAULT_ORIGIN))
            for name, value in sorted(self.values.items())
        ]


def parse_assignment(text: str) -> Setting:
    """One ``--set NAME=VALUE``. Raises `ConfigRefused` without an equals sign or a name."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigRefused([f"--set {text!r} is not NAME=VALUE"])
    return Setting(name.strip(), value, "--set")


def load_config(
    *,
    path: str | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    flags: Flags | None = None,
    host_name: str = "localhost",
) -> BrokerConfig:
    """Read and check the whole configuration of a broker.

    ``host_name`` is the name that clients get where a listener is open on every interface. Raises `ConfigRefused` with
    all that is wrong, or `OSError` if the file cannot be read.
    """
    given = flags or Flags()
    in_file: list[Setting] = []
    try:
        if path is not None:
            in_file = parse_config_file(Path(path).read_bytes(), path)
        from_flags = given.settings()
    except (ConfigFileError, AddressError) as error:
        raise ConfigRefused([str(error)]) from error
    below = [*in_file, *environment_settings(environment or {})]
    if given.listen is not None:
        # The file's advertised addresses belong to the file's listeners.
        below = [setting for setting in below if setting.name != "advertised.listeners"]
    explicit = [*map(parse_assignment, assignments), *from_flags]
    return _Loader(host_name).load([*below, *explicit])


class _Loader:
    """Collects problems and notices while settings become values."""

    def __init__(self, host_name: str) -> None:
        self.host_name = host_name
        self.problems: list[str] = []
        self.notices: list[str] = []
        self.chosen: dict[str, Setting] = {}
        self.values: dict[str, ConfigValue] = {name: row.default for name, row in definitions().items()}

    def load(self, settings: Sequence[Setting]) -> BrokerConfig:
        for setting in settings:
            self._take(setting)
        for name, setting in self.chosen.items():
            self._parse(name, setting)
        self._refuse_if_wrong()
        self.problems.extend(broker_problems(self.values))
        config = self._build()
        self._refuse_if_wrong()
        return config

    def _refuse_if_wrong(self) -> None:
        if self.problems:
            raise ConfigRefused(self.problems)

    def _take(self, setting: Setting) -> None:
        rows = definitions()
        name = setting.name
        if name not in rows and setting.origin.startswith("environment") and f"stratalog.{name}" in rows:
            name = f"stratalog.{name}"
        if name in rows:
            earlier = self.chosen.get(name)
            if earlier is not None and _same_file(earlier, setting):
                self.notices.append(
                    f"{setting.origin}: {name} stands there twice; this line counts, {earlier.origin} does not"
                )
            self.chosen[name] = setting
            return
        why_not = _ignored(name)
        if why_not is None:
            self.problems.append(f"{setting.origin}: {describe_unknown(name)}")
        elif name.startswith(LISTENER_PREFIX) and any(map(is_security, _suffixes(name))):
            self.problems.append(f"{setting.origin}: {name} would protect nothing: {why_not}; remove it")
        else:
            self.notices.append(f"{setting.origin}: {name} has no effect: {why_not}")

    def _parse(self, name: str, setting: Setting) -> None:
        row = definitions()[name]
        try:
            self.values[name] = row.parse(setting.text)
        except ConfigError as error:
            self.problems.append(f"{setting.origin}: {error}")
            return
        if row.why_not is not None and is_security(name) and self.values[name] != row.default:
            self.problems.append(f"{setting.origin}: {name} would protect nothing: {row.why_not}; remove it")
        elif row.why_not is not None:
            self.notices.append(f"{setting.origin}: {name} has no effect: {row.why_not}")

    def _build(self) -> BrokerConfig:
        log_dirs = self._log_dirs()
        node_id = self._node_id()
        roles = self._roles(node_id)
        listeners = None if roles is None else self._listeners(roles)
        http_host, http_port = self._http()
        beside = log_dirs[0] if log_dirs else "/"
        cache_dir = self._text("stratalog.cache.dir")
        metadata_dir = self._text("metadata.log.dir")
        bucket_url = self._bucket_url(beside)
        self._refuse_if_wrong()
        assert roles is not None
        assert listeners is not None
        return BrokerConfig(
            node_id=node_id,
            roles=roles,
            rack=self._text("broker.rack"),
            log_dirs=log_dirs,
            metadata_log_dir=_absolute(metadata_dir) if metadata_dir else beside,
            listeners=listeners.served,
            advertised_listeners=listeners.advertised,
            controller_listeners=listeners.controllers,
            told_controller_listeners=told_controllers(roles, listeners),
            controller_address=controller_address(roles, listeners),
            http_host=http_host,
            http_port=http_port,
            tiering_enabled=bool(self.values["remote.log.storage.system.enable"]),
            bucket_url=bucket_url,
            bucket_options=bucket_options(self.values),
            cache_dir=_absolute(cache_dir) if cache_dir else f"{beside}-cache",
            cache_bytes_max=_whole(self.values["stratalog.cache.bytes.max"]),
            values=MappingProxyType(self.values),
            static=MappingProxyType({name: setting.text for name, setting in self.chosen.items()}),
            origins=MappingProxyType({name: setting.origin for name, setting in self.chosen.items()}),
            notices=tuple(self.notices),
        )

    def _bucket_url(self, beside: str) -> str:
        name = "stratalog.bucket.url"
        url = self._text(name)
        for misplaced in misplaced_settings(url, self.values):
            why = "is for s3:// buckets; a KMS key also needs the encryption aws:kms or aws:kms:dsse"
            self.problems.append(f"{self._origin(misplaced)}: {misplaced} {why}")
        if url is None:
            return f"file://{quote(beside)}-bucket"
        if url.startswith("/"):
            return f"file://{quote(url)}"
        if not _BUCKET_URL.fullmatch(url):
            self.problems.append(
                f"{self._origin(name)}: {name} {url!r} is no URL of a store; write file:///path, s3://bucket/prefix or memory:"
            )
        return url

    def _text(self, name: str) -> str | None:
        value = self.values[name]
        return value if isinstance(value, str) and value else None

    def _log_dirs(self) -> tuple[str, ...]:
        name = "log.dirs" if self.values["log.dirs"] else "log.dir"
        paths = tuple(_absolute(path) for path in _texts(self.values[name]) if path)
        if not paths:
            self.problems.append(f"{self._origin(name)}: {name} names no directory")
        for path in paths:
            if paths.count(path) > 1:
                self.problems.append(f"{self._origin(name)}: {name} names the directory {path} twice")
                break
        return paths

    def _node_id(self) -> int:
        node_id, broker_id = _whole(self.values["node.id"]), _whole(self.values["broker.id"])
        if "broker.id" not in self.chosen or broker_id < 0:
            return node_id
        if "node.id" in self.chosen and node_id != broker_id:
            self.problems.append(
                f"{self._origin('broker.id')}: broker.id {broker_id} is not node.id {node_id}; give one of them"
            )
        return broker_id

    def _origin(self, name: str) -> str:
        setting = self.chosen.get(name)
        return setting.origin if setting else DEFAULT_ORIGIN

    def _http(self) -> tuple[str, int]:
        name = "stratalog.http.listener"
        try:
            return parse_address(self._text(name) or "", name)
        except AddressError as error:
            self.problems.append(f"{self._origin(name)}: {error}")
            return "", 0

    def _roles(self, node_id: int) -> ClusterRoles | None:
        try:
            return cluster_roles(self.values, node_id)
        except ConfigError as error:
            self.problems.append(str(error))
            return None

    def _listeners(self, node: ClusterRoles) -> NodeListeners | None:
        try:
            found = node_listeners(
                node,
                listeners=_texts(self.values["listeners"]),
                advertised=_texts(self.values["advertised.listeners"]),
                protocol_map=self._text("listener.security.protocol.map") or "",
                map_is_given="listener.security.protocol.map" in self.chosen,
                host_name=self.host_name,
            )
        except ListenerError as error:
            self.problems.append(str(error))
            return None
        self.problems.extend(role_problems(node, found.names))
        self.notices.extend(role_notices(node))
        if node.is_broker and not found.served:
            origin = self._origin("listeners")
            self.problems.append(f"{origin}: listeners has only controller listeners; clients need one too")
        self._check_served([*found.served, *(found.controllers if node.has_peers else ())])
        return found

    def _check_served(self, served: Sequence[Listener]) -> None:
        origin = self._origin("listeners")
        self.problems.extend(
            f"{origin}: listener {one} needs {one.protocol}: in this release only PLAINTEXT is served"
            for one in served
            if one.protocol is not SecurityProtocol.PLAINTEXT
        )


def _same_file(one: Setting, other: Setting) -> bool:
    return ":" in other.origin and one.origin.rpartition(":")[0] == other.origin.rpartition(":")[0]


def _ignored(name: str) -> str | None:
    for prefix, why_not in IGNORED_PREFIXES.items():
        if name.startswith(prefix):
            return why_not
    return None if listener_definition(name) is None else "in this release a setting holds for all listeners"


def _suffixes(name: str) -> list[str]:
    """The possible settings in listener.name.NAME.SETTING, or with a SASL mechanism in between."""
    rest = name.removeprefix(LISTENER_PREFIX)
    return [part for part in (rest.partition(".")[2], rest.split(".", 2)[-1]) if part]


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _texts(value: ConfigValue) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, str) and value else ()


def _whole(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value
