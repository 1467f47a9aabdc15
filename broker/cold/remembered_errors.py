"""Failures to read one partition's archive, answered to the readers of the next seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.messages import reports
from stratalog.wire.errors import ErrorCode, KafkaError

__all__ = ["ERROR_MS", "RememberedErrors", "went_back"]

ERROR_MS: Final = 5_000
"""So long a failure is answered without asking the bucket again."""

_ERRORS_KEPT: Final = 256

log = logging.getLogger(__name__)


class RememberedErrors:
    """By what was asked for: the manifest (None), an object's table, a chunk."""

    def __init__(self, partition: PartitionId, now_ms: Callable[[], int]) -> None:
        self._partition = partition
        self._now_ms = now_ms
        self._errors: dict[object, tuple[int, KafkaError]] = {}

    def remember(self, what: object, report: reports.Report) -> bool:
        """Whether readers get the failure, instead of waiting in vain; retriable failures just wait.

        Readers get a lost archive as an error that they retry; the claimant of the archive logs it.
        """
        if isinstance(report, reports.FailedReport) and report.retriable:
            log.warning("%s: reading the archive failed and is tried again: %s", self._partition, report.message)
            return False
        message = getattr(report, "message", str(report))
        corrupt = isinstance(report, reports.CorruptReport)
        if not isinstance(report, reports.LostReport):
            log.error("%s: the archive cannot be read: %s", self._partition, message)
        code = ErrorCode.CORRUPT_MESSAGE if corrupt else ErrorCode.KAFKA_STORAGE_ERROR
        if len(self._errors) >= _ERRORS_KEPT:
            del self._errors[next(iter(self._errors))]  # the oldest one
        self._errors[what] = (self._now_ms() + ERROR_MS, KafkaError(code, message))
        return True

    def raise_for(self, what: object) -> None:
        """Raise the `KafkaError` of ``what``, if there was one in the last seconds."""
        remembered = self._errors.get(what)
        if remembered is None:
            return
        until_ms, error = remembered
        if self._now_ms() >= until_ms:
            del self._errors[what]
        else:
            raise error


def went_back(partition: PartitionId, seq: int, known_seq: int) -> reports.FailedReport:
    """The failure of a manifest that is older than the one that was known when it was asked for."""
    found = f"has number {seq} in the bucket" if seq else "is not in the bucket"
    words = f"the manifest {partition.manifest_key} {found}, but number {known_seq} was read from there before"
    advice = "mount the right bucket, put the manifest back, or see `stratalog tier verify` and `tier repair`"
    return reports.FailedReport(f"{words}: this is another bucket, or it went back in time; {advice}", retriable=False)
