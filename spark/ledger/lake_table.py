"""A table in a lake format, as the ledger of a backfill sees it: files are added to it run by run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stratalog.spark.ledger.ledger import Head, Run

__all__ = ["Table"]


class Table(Protocol):
    """A table in one of the lake formats."""

    @property
    def files_url(self) -> str:
        """Where its data files lie, and the ledger beside them."""

    @property
    def files_options(self) -> Mapping[str, str]:
        """Options ``s3.…`` of the store at `files_url`."""

    @property
    def one_period_a_file(self) -> bool:
        """Whether the table finds out by a file's times which partition it belongs to, so that there must be one only."""

    def last_run(self, head: Head) -> int:
        """The highest number of a run of the topic of ``head`` that the table has; 0 if it knows none."""

    def add(self, head: Head, run: Run) -> None:
        """Append the files of ``run``, the last one of ``head``, in one commit; nothing if that was done before."""
