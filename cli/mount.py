"""``stratalog mount``: serve any bucket as a read-only Kafka broker, without writing to it."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Sequence
from typing import Final

import click

from stratalog.broker.runtime.event_loop import run
from stratalog.broker.settings.config import Flags, load_config
from stratalog.cli.command import BOOTSTRAP_DEFAULT, HTTP_DEFAULT, command
from stratalog.cli.output import reports_errors
from stratalog.cli.serve import free_or_any, run_broker, start_logging
from stratalog.wire.errors import Invalid

__all__ = ["mount"]

MOUNT_EXAMPLES: Final = """
stratalog mount s3://archive/prod
stratalog mount file:///backup/bucket --listen 127.0.0.1:9092
stratalog mount s3://archive/prod --set stratalog.bucket.region=eu-west-1 --set stratalog.cache.bytes.max=10737418240
"""
SETTINGS: Final = (
    "stratalog.read.only=true",
    "auto.create.topics.enable=false",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=1",
    "offsets.retention.minutes=2147483647",
)
"""Where a mounted broker differs from one that serves: one user, nothing to keep, nothing to change."""


@command("mount", MOUNT_EXAMPLES)
@click.argument("url")
@click.option(
    "--listen", metavar="HOST:PORT", help="Where Kafka clients connect; 127.0.0.1:9092 if it is free, else any port."
)
@click.option("--http", metavar="HOST:PORT", help="Health and metrics; port 0 is any free one.")
@click.option("-s", "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting; may be repeated.")
@click.option(
    "--log-level",
    default="warning",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level logged to stderr.",
)
@reports_errors
def mount(*, url: str, listen: str | None, http: str | None, assignments: Sequence[str], log_level: str) -> None:
    """Serve the bucket at URL to Kafka clients, for reading, without writing one byte to it.

    URL is file:///path, s3://bucket/prefix or what fsspec knows. All topics that the bucket holds are there, as far as
    they were archived; new objects are followed. Writing and every change is refused. Consumer groups work, and end
    with the mount: what it keeps (committed offsets, fetched chunks) is in a temporary folder. Credentials that may
    read are enough. orders@CUT is the topic as it was at a cut, orders@2026-11-01T00:00Z as it was at a time.

    \b
    When it is ready it prints one line on stdout:
      ready kafka=HOST:PORT http=HOST:PORT bucket=URL
    """  # noqa: D301 - the escape is click's mark of a paragraph to be left as it is
    start_logging(log_level)
    folder = tempfile.mkdtemp(prefix="stratalog-mount-")
    try:
        config = load_config(
            assignments=[*SETTINGS, f"stratalog.cache.dir={folder}/cache", *assignments],
            flags=Flags(
                data=f"{folder}/data",
                bucket=url,
                listen=listen or free_or_any(BOOTSTRAP_DEFAULT),
                http=http or free_or_any(HTTP_DEFAULT),
            ),
            host_name=socket.gethostname(),
        )
        if not config.boolean("stratalog.read.only"):
            raise Invalid("stratalog.read.only cannot be taken back here: use stratalog serve to write to a bucket")
        code = run(run_broker(config, on_ready=None))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(code)
