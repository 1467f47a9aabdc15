"""Shared by the commands that work on a bucket without a broker: its URL, its options, their progress."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stratalog.broker.runtime.clock import SystemClock
from stratalog.cli.output import bytes_text, note

if TYPE_CHECKING:
    from stratalog.tier.stores.store import ObjectStore

__all__ = ["Progress", "bucket_options", "open_bucket"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_EVERY_SECONDS: Final = 1.0


def bucket_options(function: Decorated) -> Decorated:
    """Add ``--bucket``, ``--endpoint-url`` and ``--region``."""
    for option in reversed(
        (
            click.option(
                "--bucket",
                required=True,
                metavar="URL",
                help="The archive: file:///path, s3://bucket/prefix or another fsspec URL.",
            ),
            click.option("--endpoint-url", metavar="URL", help="Another S3 server than Amazon's."),
            click.option("--region", metavar="NAME", help="The bucket's region."),
        )
    ):
        function = option(function)
    return function


def open_bucket(url: str, endpoint_url: str | None, region: str | None) -> ObjectStore:
    """Open the store at ``url``; a directory must exist. Raises what `open_store` raises."""
    from stratalog.tier import open_store

    options: dict[str, Any] = {}
    if url.startswith("s3:"):
        options = {"endpoint_url": endpoint_url, "region": region}
    elif url.startswith(("file:", "/")):
        options = {"create": False}
    return open_store(url, **{name: value for name, value in options.items() if value is not None})


class Progress:
    """Says on stderr how far a long command is: about once a second on a terminal, never in a pipe."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._clock = SystemClock()
        self._shown = sys.stderr.isatty()
        self._told_s = self._clock.monotonic()
        self.object_count = 0
        self.size_bytes = 0

    def add(self, size_bytes: int) -> None:
        """One more object was looked at; ``size_bytes`` of it were read."""
        with self._lock:
            self.object_count += 1
            self.size_bytes += size_bytes
            now_s = self._clock.monotonic()
            if self._shown and now_s - self._told_s >= _EVERY_SECONDS:
                self._told_s = now_s
                note(f"{self._what}: {self.object_count} objects, {bytes_text(self.size_bytes)} read …")
