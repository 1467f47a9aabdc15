"""``stratalog serve`` and ``stratalog dev``: run a broker until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stratalog.broker.local_cluster.node_files import NODES_MAX
from stratalog.broker.runtime.event_loop import run
from stratalog.broker.runtime.grown_objects import GrownObjects
from stratalog.broker.settings.bucket_url import bucket_url_fault
from stratalog.broker.settings.config import BrokerConfig, ConfigRefused, Flags, load_config
from stratalog.cli.command import BOOTSTRAP_DEFAULT, HTTP_DEFAULT, command
from stratalog.cli.output import ExitCode, json_option, note, reports_errors, write_json
from stratalog.wire.address import parse_address

if TYPE_CHECKING:
    from stratalog.broker.controller_node import ControllerNode
    from stratalog.broker.node import Node

__all__ = ["dev", "free_or_any", "run_broker", "serve", "start_logging"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
TOGETHER_SECONDS: Final = 0.05
START_SECONDS: Final = 3.0
"""A node that is stopped while it starts has so long to come to its end, and to stop in order."""
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

log = logging.getLogger(__name__)

SERVE_EXAMPLES: Final = """
stratalog serve --config server.properties
stratalog serve --config broker.toml --set log.segment.bytes=104857600 --bucket s3://archive/prod
STRATALOG_NUM_PARTITIONS=6 stratalog serve --data /var/lib/stratalog --listen 0.0.0.0:9092
stratalog serve --config server.properties --print-config
"""

DEV_EXAMPLES: Final = """
stratalog dev
stratalog dev --listen 127.0.0.1:0 --http 127.0.0.1:0
stratalog dev --bucket s3://scratch/me --set num.partitions=6
stratalog dev --data ./data
stratalog dev --nodes 3
"""


def broker_flags(function: Decorated) -> Decorated:
    """Add what `serve` and `dev` share."""
    for option in reversed(
        (
            click.option(
                "-s", "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting; may be repeated."
            ),
            click.option("--data", metavar="DIR", help="Directory of the log: log.dirs."),
            click.option("--bucket", metavar="URL", help="Archive: file:///path, s3://bucket/prefix or memory:."),
            click.option(
                "--listen", metavar="HOST:PORT", help="Where Kafka clients connect: listeners; port 0 is any free one."
            ),
            click.option("--http", metavar="HOST:PORT", help="Health and metrics; port 0 is any free one."),
            click.option(
                "--log-level",
                default="info",
                show_default=True,
                type=click.Choice(["debug", "info", "warning", "error"]),
                help="Lowest level logged to stderr.",
            ),
        )
    ):
        function = option(function)
    return function


@command("serve", SERVE_EXAMPLES)
@click.option("-c", "--config", "path", envvar="STRATALOG_CONFIG", show_envvar=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False), help="Kafka's server.properties, or TOML with the same names.")  # fmt: skip
@broker_flags
@click.option("--print-config", is_flag=True, help="Show every setting with its value and origin, and end.")
@json_option
@reports_errors
def serve(
    *,
    path: str | None,
    assignments: Sequence[str],
    data: str | None,
    bucket: str | None,
    listen: str | None,
    http: str | None,
    log_level: str,
    print_config: bool,
    as_json: bool,
) -> None:
    """Run a broker.

    Later places win: defaults, the file, STRATALOG_… variables (STRATALOG_LOG_SEGMENT_BYTES is log.segment.bytes),
    --set, the other flags. When the broker is ready it prints one line on stdout:

    \b
      ready kafka=HOST:PORT http=HOST:PORT bucket=URL

    SIGTERM or SIGINT stops it in order, a second one at once; a start that takes 3 s more is given up. So does SIGHUP, what a terminal sends that is closed; under
    nohup it is ignored. Settings are changed at run time with kafka-configs, not by a signal.
    """  # noqa: D301 - the escape is click's mark of a paragraph to be left as it is
    config = _load(path, assignments, Flags(data=data, bucket=bucket, listen=listen, http=http))
    if print_config:
        _print_config(config, as_json=as_json)
        return
    start_logging(log_level)
    raise SystemExit(run(run_broker(config, on_ready=None)))


@command("dev", DEV_EXAMPLES)
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), default=1, show_default=True, metavar="NUMBER",
              help="Nodes of the cluster; more than one are processes of their own.")  # fmt: skip
@broker_flags
@reports_errors
def dev(
    *,
    nodes: int,
    assignments: Sequence[str],
    data: str | None,
    bucket: str | None,
    listen: str | None,
    http: str | None,
    log_level: str,
) -> None:
    """Run a broker to try things out: everything in a temporary folder that goes when the broker stops.

    With --data the log is kept there. Ports 9092 and 8080 are taken if they are free, otherwise any. The commands to
    type next are printed on stderr.

    With --nodes 3 it is a cluster of three, each broker and controller: a process, a directory, ports and a page each, one
    bucket for all, on this terminal. Each node prints a ready line, then the cluster does; lines of a node's log begin with
    its id. A node that ends is said, and the others go on. Ctrl-C stops one after the other; a second one stops all at once.
    """
    from stratalog.broker.local_cluster.directories import has_cluster

    if nodes > 1 or (data is not None and has_cluster(data)):
        from stratalog.cli.dev_cluster import Wishes, run_dev_cluster

        wishes = Wishes(tuple(assignments), bucket=bucket, listen=listen, http=http, log_level=log_level)
        with _folder(data) as folder:
            raise SystemExit(run_dev_cluster(nodes, folder, wishes, is_kept=data is not None))
    start_logging(log_level)
    with _folder(data) as folder:
        config = _load(
            None,
            [f"stratalog.cache.dir={folder}/cache", *assignments] if data is None else assignments,
            Flags(
                data=data or f"{folder}/data",
                bucket=bucket or (f"file://{folder}/bucket" if data is None else None),
                listen=listen or free_or_any(BOOTSTRAP_DEFAULT),
                http=http or free_or_any(HTTP_DEFAULT),
            ),
        )
        code = run(
            run_broker(
                config, on_ready=lambda node: note(banner(node.kafka_address, node.http_address, config, folder))
            )
        )
    raise SystemExit(code)


def _load(path: str | None, assignments: Sequence[str], flags: Flags) -> BrokerConfig:
    return load_config(
        path=path, environment=os.environ, assignments=assignments, flags=flags, host_name=socket.gethostname()
    )


def _print_config(config: BrokerConfig, *, as_json: bool) -> None:
    for row in config.rows():
        if as_json:
            write_json({"name": row.name, "value": row.text, "origin": row.origin})
        else:
            click.echo(f"{row.name}={'' if row.text is None else row.text}  # {row.origin}")


def start_logging(level: str) -> None:
    """Log to stderr from ``level`` on."""
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format=LOG_FORMAT)


@contextlib.contextmanager
def _folder(data: str | None) -> Iterator[str]:
    if data is not None:
        yield str(Path(data).absolute())
        return
    folder = tempfile.mkdtemp(prefix="stratalog-dev-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_or_any(address: str) -> str:
    """The address if nothing listens there, else one with a port that is free now."""
    host, port = parse_address(address, "address")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            note(f"Port {port} is taken; another one is used.")
        else:
            return address
    # A number and not 0: the settings that the broker shows then name the port.
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


async def run_broker(config: BrokerConfig, on_ready: Callable[[Node | ControllerNode], None] | None) -> int:
    """Run a node until a signal, or until its last log directory fails; the exit code.

    Raises `ConfigRefused` for a bucket that cannot be.
    """
    fault = bucket_url_fault(config.bucket_url, read_only=config.boolean("stratalog.read.only"))
    if fault:
        raise ConfigRefused([f"stratalog.bucket.url (--bucket): {fault}"])
    with _uncollected():
        from stratalog.broker.network.limits import allow_descriptors

    allow_descriptors()
    os.umask(int(config.text("stratalog.umask") or "077", 8))
    for notice in config.notices:
        log.info("%s", notice)
    stop = asyncio.Event()
    _handle_signals(stop)
    node = _new_node(config)
    with _uncollected():
        if not await _started(node, stop):
            return int(ExitCode.OK)
    try:
        if not stop.is_set():
            if on_ready is not None:
                on_ready(node)
            served, bucket = ("kafka", f" bucket={config.bucket_url}") if config.roles.is_broker else ("controller", "")
            click.echo(f"ready {served}={_text(node.kafka_address)} http={_text(node.http_address)}{bucket}")
            await node.http.opened()
            gc.freeze()  # what that imported stays as well
        grown = GrownObjects(lambda: node.lasting_objects, asyncio.get_running_loop().call_soon_threadsafe)
        try:
            await _first(stop, node.failed)
        finally:
            grown.close()
        log.info("stopping")
    finally:
        await node.stop()
    return int(ExitCode.FAILED if node.failed.is_set() else ExitCode.OK)


async def _started(node: Node | ControllerNode, stop: asyncio.Event) -> bool:
    """Start the node; False if ``stop`` is set before it has started, and for `START_SECONDS` more. Raises what the start raises.

    A start may wait for a quorum, or read large logs: who stops it is not to wait for that.
    """
    starting, stopping = asyncio.ensure_future(node.start()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({starting}, timeout=START_SECONDS)
        if not starting.done():
            log.info("the start is given up: the logs are recovered at the next one")
            starting.cancel()
            await asyncio.wait({starting})
        if starting.cancelled():
            return False
        await starting
    finally:
        stopping.cancel()
        starting.cancel()
    return True


def _new_node(config: BrokerConfig) -> Node | ControllerNode:
    """The node of the roles that the settings name; only its own half is imported."""
    with _uncollected():
        if config.roles.is_broker:
            from stratalog.broker.node import Node

            return Node(config)
        from stratalog.broker.controller_node import ControllerNode

        return ControllerNode(config)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Exempt the objects made here from garbage collection, now and ever after: they stay for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _handle_signals(stop: asyncio.Event) -> None:
    """The first SIGTERM or SIGINT sets `stop`; a second one ends the process at once.

    Signals that arrive together count as one: timeout(1) sends it to the process and again to its group. SIGHUP sets
    `stop`, as it ends a JVM in order, and is never a second signal: a terminal and its shell send one each, and
    systemd's SendSIGHUP one behind each SIGTERM. Where nohup has it ignored, it stays ignored.
    """
    loop = asyncio.get_running_loop()
    asked_at: float | None = None

    def stopped(number: signal.Signals) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = loop.time()
            stop.set()
        elif loop.time() - asked_at >= TOGETHER_SECONDS:
            with contextlib.suppress(OSError):  # a pipe whose reader has gone must not keep the process
                note(f"Second {number.name}: stopping at once; the log is recovered at the next start.")
            os._exit(int(ExitCode.FAILED))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped, number)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop.set)


def _text(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def banner(address: tuple[str, int], http_address: tuple[str, int], config: BrokerConfig, folder: str) -> str:
    """The commands to type next: for kcat, Python and Spark, ready to be copied."""
    kafka, http = _text(address), _text(http_address)
    at = "" if kafka == BOOTSTRAP_DEFAULT else f" -b {kafka}"
    at_http = "" if http == HTTP_DEFAULT else f" --http {http}"
    kept = "it goes when this ends" if folder not in config.log_dirs else "it is kept"
    return f"""
  stratalog is running; its data is in {folder} and {kept} (Ctrl-C)

  a topic   stratalog topic create demo{at} --config remote.storage.enable=true --config segment.ms=5000
  write     echo 'hello' | stratalog produce demo{at}
  read      stratalog consume demo{at}
  archive   stratalog tier status demo{at}{at_http}
  page      http://{http}/

  kcat      echo 'hello' | kcat -P -b {kafka} -t demo
            kcat -C -b {kafka} -t demo -e

  Python    from confluent_kafka import Producer
            producer = Producer({{"bootstrap.servers": "{kafka}"}})
            producer.produce("demo", key="k", value="hello"); producer.flush()

  Spark     spark.read.format("stratalog").option("subscribe", "demo").load("{config.bucket_url}")
            (reads the bucket: what has frozen and been uploaded, also with the broker stopped)
"""
