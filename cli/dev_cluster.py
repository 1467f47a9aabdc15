"""``stratalog dev --nodes 3``: a cluster of several nodes on one terminal, made and run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from stratalog.broker.control.control_plane import new_topic_id
from stratalog.broker.local_cluster.child_process import serve_command
from stratalog.broker.local_cluster.directories import (
    child_environment,
    choose_ports,
    find_nodes,
    forget_unfinished,
    make_cluster,
)
from stratalog.broker.local_cluster.node_files import HOST, ClusterLayout, NodePorts, cluster_layout
from stratalog.broker.local_cluster.running import run_nodes
from stratalog.broker.runtime.clock import SystemClock
from stratalog.broker.settings.config import load_config
from stratalog.broker.settings.file import parse_config_file
from stratalog.cli.command import BOOTSTRAP_DEFAULT, HTTP_DEFAULT
from stratalog.cli.output import ExitCode, note
from stratalog.hot.storage.checkpoint import META_PROPERTIES
from stratalog.wire.address import PORT_MAX, AddressError, parse_address
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import uuid_text

__all__ = ["Wishes", "run_dev_cluster"]

SETTINGS: Final[Mapping[str, str]] = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
"""A node that was killed serves again when its session of before is over: after 3 s, not Kafka's 9."""
CONTROLLERS_ABOVE: Final = 10_000
"""The port of a controller is that of its clients plus this, where that is free: 19092."""


class Wishes(Struct, frozen=True):
    """The options of the command."""

    assignments: tuple[str, ...] = ()
    bucket: str | None = None
    listen: str | None = None
    http: str | None = None
    log_level: str = "info"


def run_dev_cluster(count: int, folder: str, wishes: Wishes, *, is_kept: bool) -> int:
    """Make a cluster of ``count`` nodes in ``folder``, or take the one that is there, and run it; the exit code.

    Raises `ConfigRefused`, and `Invalid` for a folder that holds something else.
    """
    paths = _found(count, folder, wishes) if is_kept else {}
    if not paths:
        Path(folder).mkdir(parents=True, exist_ok=True)
        layout = _planned(count, folder, wishes)
        make_cluster(layout, now_ms=SystemClock().wall_ms())
        paths = {node.node_id: node.properties_path for node in layout.nodes}
    named = {each.name for path in paths.values() for each in parse_config_file(Path(path).read_bytes(), path)}
    environment = child_environment(os.environ, named)
    for path in paths.values():
        load_config(
            path=path, environment=environment, assignments=wishes.assignments
        )  # refused once, not by each node
    options = [word for text in wishes.assignments for word in ("--set", text)]
    commands = {
        node_id: serve_command(path, *options, "--log-level", wishes.log_level) for node_id, path in paths.items()
    }
    in_order = run_nodes(
        commands,
        environment=environment,
        write=click.echo,
        note=note,
        monotonic=SystemClock.monotonic,
        on_all_serve=lambda nodes: note(banner(nodes, folder, is_kept=is_kept)),
    )
    return int(ExitCode.OK if in_order else ExitCode.FAILED)


def _found(count: int, folder: str, wishes: Wishes) -> Mapping[int, str]:
    """The nodes that an earlier run left in ``folder``; none in a new one. Raises `Invalid`."""
    forget_unfinished(folder)
    paths = find_nodes(folder)
    if not paths:
        if Path(folder, META_PROPERTIES).exists():
            raise Invalid(f"{folder} holds the data of a single broker: name another --data, or leave --nodes out")
        return {}
    if len(paths) != count:
        raise Invalid(f"{folder} holds a cluster of {len(paths)} nodes: give --nodes {len(paths)}, or another --data")
    for option, wish in (("--listen", wishes.listen), ("--http", wishes.http), ("--bucket", wishes.bucket)):
        if wish is not None:
            raise Invalid(
                f"{option} is for a new cluster: that of {folder} has its addresses and its bucket in "
                f"{', '.join(Path(path).name for path in paths.values())}"
            )
    return paths


def _planned(count: int, folder: str, wishes: Wishes) -> ClusterLayout:
    """The files of a new cluster, on free ports. Raises `Invalid`."""
    clients = _ports("--listen", wishes.listen or BOOTSTRAP_DEFAULT, count)
    http = _ports("--http", wishes.http or HTTP_DEFAULT, count)
    controllers = [port + CONTROLLERS_ABOVE if 0 < port <= PORT_MAX - CONTROLLERS_ABOVE else 0 for port in clients]
    wanted = [*clients, *controllers, *http]
    chosen = choose_ports(wanted)
    for port, taken in zip(wanted, chosen, strict=True):
        if port not in {0, taken}:
            note(f"Port {port} is taken; {taken} is used.")
    ports = [
        NodePorts(clients=chosen[number], controller=chosen[count + number], http=chosen[2 * count + number])
        for number in range(count)
    ]
    return cluster_layout(
        ports,
        folder,
        cluster_id=uuid_text(new_topic_id()),
        directory_ids=[new_topic_id() for _ in range(count)],
        bucket_url=wishes.bucket or f"file://{folder}/bucket",
        settings=SETTINGS,
    )


def _ports(option: str, address: str, count: int) -> list[int]:
    """A port for each node: the one given and those after it; 0 for any. Raises `AddressError`."""
    host, port = parse_address(address, option)
    if host not in {HOST, "localhost", ""}:
        raise AddressError(f"{option} {address}: the nodes of stratalog dev --nodes listen on {HOST} only")
    if port + count - 1 > PORT_MAX:
        raise AddressError(f"{option} {address}: {count} nodes need ports up to {port + count - 1}")
    return [port + number if port else 0 for number in range(count)]


def banner(nodes: Sequence[Mapping[str, str]], folder: str, *, is_kept: bool) -> str:
    """The commands to type next."""
    kafka = nodes[0].get("kafka", "")
    at = "" if kafka == BOOTSTRAP_DEFAULT else f" -b {kafka}"
    kept = "it is kept" if is_kept else "it goes when this ends"
    pages = "  ".join(f"http://{each.get('http', '')}/" for each in nodes)
    return f"""
  A cluster of {len(nodes)} nodes is running; its data is in {folder} and {kept} (Ctrl-C)

  nodes     stratalog cluster{at}
  quorum    stratalog quorum describe{at}
  a topic   stratalog topic create demo{at} --partitions {len(nodes)} --config remote.storage.enable=true --config segment.ms=5000
  write     echo 'hello' | stratalog produce demo{at}
  read      stratalog consume demo{at}
  pages     {pages}
"""
