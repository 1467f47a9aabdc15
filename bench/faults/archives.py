"""The archive after a run: what a deep verification finds, and its records beside those that a consumer read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import stratalog
from bench.faults.answers import Found
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.stores.opening import open_store
from stratalog.wire.errors import Unknown

__all__ = ["archive_faults", "archived_records"]

_GRACE_MS = 86_400_000
"""Objects without a name in a manifest are left by uploads that lost their claim; they may wait longer than any run takes."""


def archive_faults(bucket_url: str, endpoint: str | None = None) -> Iterator[str]:
    """Everything in which the bucket is not what its manifests say; every byte is read. ``endpoint`` is that of S3."""
    options = VerifyOptions(time.time_ns() // 1_000_000, _GRACE_MS, deep=True)
    reach = {} if endpoint is None else {"endpoint_url": endpoint, "region": "us-east-1"}
    for report in verify_bucket(open_store(bucket_url, **reach), options):
        yield from (f"archive: {anomaly}" for anomaly in report.anomalies)


def archived_records(
    bucket_url: str, topic: str, read: Mapping[int, Sequence[Found]], endpoint: str | None = None
) -> tuple[int, list[str]]:
    """How many records of a topic are archived, and those that are others than a consumer read."""
    options = {} if endpoint is None else {"s3_endpoint": endpoint, "s3_region": "us-east-1"}
    try:
        rows = (
            stratalog.open(bucket_url, **options)
            .topic(topic)
            .to_arrow(columns=["partition", "offset", "value"])
            .to_pylist()
        )
    except Unknown:  # no segment has been uploaded yet
        return 0, []
    there = {(partition, one.offset): one.value for partition, records in read.items() for one in records}
    archived = {(row["partition"], row["offset"]): row["value"] for row in rows}
    differ = [place for place, value in archived.items() if there.get(place) != value]
    faults = (
        [f"archive of {topic}: {len(differ)} records are others than were read, first {min(differ)}"] if differ else []
    )
    for partition, records in read.items():
        last = max((offset for number, offset in archived if number == partition), default=-1)
        missing = [one.offset for one in records if one.offset <= last and (partition, one.offset) not in archived]
        if missing:
            faults.append(f"archive of {topic}-{partition}: {len(missing)} records are missing, first {missing[0]}")
    return len(rows), faults
