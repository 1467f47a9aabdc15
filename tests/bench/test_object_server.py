"""The benchmark's server of S3's protocol: good enough for the archive's own store and its probe."""

from __future__ import annotations

import time

import pytest

from bench.object_server import ObjectServer
from stratalog.tier.stores.probe import probe
from stratalog.tier.stores.s3.client import S3Settings
from stratalog.tier.stores.s3.store import S3Store


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A started server."""
    with ObjectServer.start(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture
def store(server):
    """A client of it."""
    settings = S3Settings(endpoint_url=server.url, region="us-east-1", access_key_id="a", secret_access_key="b")
    return S3Store("bench", settings, single_put_bytes_max=6 << 20)


def test_the_archive_may_write_to_it(store):
    """Conditions hold, ranges are ranges, lists are in order."""
    probe(store).require(multi_writer=True)


def test_parts_become_one_object(store):
    """In their order, whatever it is called."""
    data = bytes(range(256)) * (40 << 10)
    store.put_large("a b/c", data, part_bytes=5 << 20)
    assert store.get_range("a b/c", 5 << 20, 1000) == data[5 << 20 : (5 << 20) + 1000]
    assert store.head("a b/c").size_bytes == len(data)
    assert [one.key for one in store.list("a b/")] == ["a b/c"]
    store.delete_many(["a b/c"])
    assert list(store.list("a b/")) == []


def test_answers_are_held_to_a_rate(server, store):
    """Never faster than told; how much slower is the machine's affair."""
    store.put("held", bytes(2 << 20))
    server.hold(megabytes_per_second=20, first_byte_ms=30)
    started = time.monotonic()
    assert len(store.get_range("held", 0, 2 << 20)) == 2 << 20
    assert time.monotonic() - started >= 0.03 + ((2 << 20) - (512 << 10)) / 20e6
    server.hold()
