"""Kafka's own torture test of compaction, while the cleaner is at work."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

MESSAGES, TOPICS, DUPLICATES = 100_000, 2, 20


@pytest.fixture(scope="module")
def broker(kafka, serve):
    """Small segments, a cleaner that never rests, and tombstones that are forgotten at once."""
    return serve(
        "log.segment.bytes=1048576",
        "log.roll.ms=500",
        "log.cleaner.backoff.ms=200",
        "log.cleaner.min.cleanable.ratio=0.01",
        "log.cleaner.delete.retention.ms=0",
    )


def test_the_last_value_of_every_key_survives(background, broker, clients) -> None:
    """LogCompactionTester with every codec: what is left holds each key's last value, and is much less."""
    testers = {
        codec: background(
            "LogCompactionTester", "--bootstrap-server", broker.address, "--messages", str(MESSAGES), "--topics",
            str(TOPICS), "--duplicates", str(DUPLICATES), "--percent-deletes", "10", "--compression-type", codec,
            "--sleep", "5",
        )
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    }  # fmt: skip
    for codec, tester in testers.items():
        said = tester.end(300).ok()
        produced, consumed, keys, mismatches = map(int, re.search(
            r"(\d+) rows of data produced, (\d+) rows of data consumed[^$]*Validated (\d+) values, (\d+) mismatches", said
        ).groups())  # fmt: skip
        assert said.endswith("Data verification is completed\n")
        print(f"{codec}: {produced:,} records produced, {consumed:,} left, {keys:,} keys compared")
        assert mismatches == 0
        assert 0 < keys <= consumed < produced / 2
        assert produced == MESSAGES * TOPICS
