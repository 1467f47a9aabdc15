"""Disks without room are named, whatever else brokers do not tell."""

from __future__ import annotations

import pytest

from stratalog.client.client import Client
from stratalog.client.full_disks import FULL_BELOW_BYTES, FullDisk, full_disks
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult

DIRECTORIES = 35


@pytest.fixture
def client(scripted):
    """A client that knows two brokers; the second one is away."""
    scripted.ranges = {DIRECTORIES: (1, 5)}
    with Client(scripted.address, 5) as client:
        client.brokers = {1: ("127.0.0.1", scripted.port), 2: ("127.0.0.1", 1)}
        yield client


def test_a_disk_with_less_room_than_a_batch_takes_is_full(scripted, client) -> None:
    """A directory that failed, an archive, and a broker that does not tell have no bytes."""
    told = [
        DescribeLogDirsResult(log_dir="/full", topics=[], usable_bytes=FULL_BELOW_BYTES - 1),
        DescribeLogDirsResult(log_dir="/room", topics=[], usable_bytes=FULL_BELOW_BYTES),
        DescribeLogDirsResult(log_dir="/old", topics=[]),
        DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/failed", topics=[], usable_bytes=0),
    ]
    scripted.answers[DIRECTORIES] = DescribeLogDirsResponse(results=told)
    assert full_disks(client, [1, 2, 3]) == [FullDisk(1, "/full", FULL_BELOW_BYTES - 1)]
    (asked,) = [request for request, _ in scripted.requests if type(request).__name__ == "DescribeLogDirsRequest"]
    assert asked.topics == []


def test_brokers_that_tell_nothing_of_directories_are_not_asked(scripted, client) -> None:
    """An old one, or a mount."""
    scripted.ranges = {3: (0, 13)}
    assert full_disks(client, [1]) == []
