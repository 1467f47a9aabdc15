"""Makes the directories and properties files of a cluster on one machine, or finds those of an earlier run.

Directories are formatted first and properties files come last: a directory that has a node's properties file has its
formatted directory, too. A mark says that they are being made: what an interruption leaves is made anew by the next run.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from stratalog.broker.local_cluster.node_files import HOST, ClusterLayout, properties_name
from stratalog.broker.replicas.directory_format import format_node, identity_of
from stratalog.broker.settings.config import load_config
from stratalog.broker.settings.environment import environment_settings
from stratalog.hot.storage.checkpoint import write_durably
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.formatting.node_format import FormatOptions
from stratalog.wire.errors import Invalid

__all__ = ["child_environment", "choose_ports", "find_nodes", "forget_unfinished", "has_cluster", "make_cluster"]

_OF_ONE_NODE: Final = ("broker.id", "log.dir", "metadata.log.dir")
_PROPERTIES: Final = re.compile(r"node-([1-9][0-9]*)\.properties")
_UNFINISHED: Final = ".stratalog-cluster-unfinished"
"""Lists what is being made, in the directory of the cluster; gone, durably, before a node can run."""
_PORTS: Final = range(20_000, 32_000)
"""Below those that Linux gives to connections: a node that is started again finds its ports free."""
_PORTS_TRIED: Final = 20


def make_cluster(layout: ClusterLayout, *, now_ms: int) -> None:
    """Format every node and write its properties file.

    Raises `ConfigRefused` for settings that cannot be, `Invalid` for a directory that is formatted or holds anything
    else, `OSError`.
    """
    options = FormatOptions(cluster_id=layout.cluster_id, initial_controllers=layout.initial_controllers)
    files = RealFilesystem()
    configs = [
        load_config(assignments=[f"{name}={value}" for name, value in node.settings.items()]) for node in layout.nodes
    ]
    made = [path for node in layout.nodes for path in (node.properties_path, node.settings["log.dirs"])]
    directory = str(Path(made[0]).parent)
    is_new = not any(Path(path).exists() for path in made)
    if is_new:
        Path(directory).mkdir(parents=True, exist_ok=True)
        names = json.dumps([Path(path).name for path in made])
        write_durably(files, f"{directory}/{_UNFINISHED}", names.encode())
    for config in configs:
        format_node(identity_of(config), options, files=files, now_ms=now_ms)
    for node in layout.nodes:
        Path(node.properties_path).write_text(node.properties)
    if is_new:
        files.unlink(f"{directory}/{_UNFINISHED}")
        files.sync_directory(directory)


def forget_unfinished(directory: str) -> None:
    """Remove what a `make_cluster` that was interrupted has left. Raises `OSError`, `Invalid` where one of its nodes has run."""
    mark = Path(directory, _UNFINISHED)
    if not mark.exists():
        return
    made = [Path(directory, name) for name in json.loads(mark.read_bytes())]
    ran = [path for path in made if any(path.glob("*/*.log"))]  # formatting makes no segment
    if ran:
        raise Invalid(
            f"{directory} holds a cluster that was not made to its end, and {ran[0].name} of it has run: move away what is needed "
            f"of it, remove {mark}, node-* and node-*.properties, and start again"
        )
    for path in made:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    mark.unlink()


def find_nodes(directory: str) -> dict[int, str]:
    """The properties file of each node that an earlier run left in ``directory``, by node id."""
    found = {}
    for path in Path(directory).glob(properties_name(0).replace("0", "*")):
        match = _PROPERTIES.fullmatch(path.name)
        if match is not None:
            found[int(match[1])] = str(path)
    return dict(sorted(found.items()))


def has_cluster(directory: str) -> bool:
    """Whether an earlier run left the nodes of a cluster in ``directory``."""
    return bool(find_nodes(directory))


def choose_ports(wanted: Sequence[int]) -> list[int]:
    """A port on `HOST` for each number wanted: that one where nothing listens there, else any; 0 wants any.

    They differ from each other. Another process may listen on one before it is used; as a connection's own port none is
    given out, unless all ports that were tried below those are taken.
    """
    with ExitStack() as held:

        def bound(port: int) -> int | None:
            probe = held.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                return None
            probe.listen()  # with SO_REUSEADDR, two sockets that only are bound could share the port
            return int(probe.getsockname()[1])

        def any_port() -> int:
            found = filter(None, map(bound, random.sample(_PORTS, _PORTS_TRIED)))
            return next(found, None) or bound(0) or 0

        first = [bound(port) if port else None for port in wanted]
        return [port or any_port() for port in first]


def child_environment(environment: Mapping[str, str], settings: Iterable[str]) -> dict[str, str]:
    """``environment`` without the variables that stand for one of these settings of a node, or for its identity.

    Variables win over a properties file: one that names a listener or a directory would give all nodes the same.
    """
    names = {*settings, *_OF_ONE_NODE}
    taken = names | {name.removeprefix("stratalog.") for name in names}
    hidden = {each.origin.partition(" ")[2] for each in environment_settings(environment) if each.name in taken}
    return {name: value for name, value in environment.items() if name not in hidden}
