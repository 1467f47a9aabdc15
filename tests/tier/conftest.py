"""Stores for the tests of the archive: in memory, in a directory, in S3 and through fsspec.

S3 is moto's server in this process, or the service behind ``--store=s3://bucket``: its address and credentials are then
those that boto3 finds. Everything written to a given store lies below a prefix of this run and is gone after each test.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.entry import Entry, LeaderEpoch
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import open_store
from stratalog.tier.stores.retrying_store import RetryPolicy
from stratalog.tier.stores.s3.client import ENDPOINT_VARIABLES
from stratalog.tier.work.archive_writer import archive_log
from stratalog.wire.batch import Record, build_batch

QUICK = RetryPolicy(deadline_s=10.0, first_wait_s=0.001, longest_wait_s=0.02)


@dataclass
class S3Service:
    """Where the S3 service of this test run is."""

    endpoint_url: str | None
    url: str
    is_moto: bool
    credentials: dict

    def open(self, prefix="", *, endpoint_url=None, **options):
        """Open a store below the service's URL; retries are quick unless told otherwise."""
        options = {"retry": QUICK, "region": "us-east-1" if self.endpoint_url else None, **self.credentials, **options}
        return open_store(f"{self.url}/{prefix}", endpoint_url=endpoint_url or self.endpoint_url, **options)

    def bucket(self, **options):
        """The store of the whole bucket, without our retries."""
        bucket = self.url.split("/")[2]
        known = {"region": "us-east-1" if self.endpoint_url else None, **self.credentials}
        return open_store(f"s3://{bucket}", retry=None, endpoint_url=self.endpoint_url, **known, **options)


def empty(store):
    """Remove everything from a store: objects and unfinished uploads."""
    for upload in list(store.list_uploads("")):
        store.abort_upload(upload.key, upload.upload_id)
    store.delete_many([info.key for info in store.list("")])


@pytest.fixture(scope="session")
def given_url(request):
    """A place of this run's own in the store of ``--store``; afterwards it must be as empty as it was."""
    url = request.config.getoption("store")
    if not url:
        pytest.skip("--store=URL names no store")
    url = f"{url.rstrip('/')}/stratalog-conformance-{uuid.uuid4().hex}" if "//" in url else url
    yield url
    left = open_given(url)
    assert [info.key for info in left.list("")] == [], "the suite left objects behind"
    assert list(left.list_uploads("")) == [], "the suite left unfinished uploads behind"
    remove_directory(url)


def remove_directory(url):
    """Take away what a store in a directory needs for itself: the directory and its lock files."""
    if url.startswith("file:"):
        shutil.rmtree(unquote(urlsplit(url).path))


def open_given(url, prefix=""):
    """Open the given store, for writing where that has to be asked for."""
    known = url.startswith(("file:", "s3:")) or "//" not in url
    options = {} if known else {"single_writer": True}
    return open_store(f"{url}/{prefix}" if prefix else url, **options)


@pytest.fixture
def given_store(given_url):
    """An empty prefix of the store of ``--store``; emptied after the test."""
    prefix = uuid.uuid4().hex if "//" in given_url else ""
    store = open_given(given_url, prefix)
    yield store
    empty(store)
    remove_directory(f"{given_url}/{prefix}")


@pytest.fixture(scope="session")
def s3_service(request):
    """The S3 service, with an empty bucket or prefix."""
    if request.config.getoption("store"):
        url = request.getfixturevalue("given_url")
        if not url.startswith("s3:"):
            pytest.skip("the store of --store is not S3")
        endpoint = next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), None)
        service = S3Service(endpoint, url, False, {})
        yield service
        empty(service.open())
        return
    from tests.moto_server import start_moto_server

    server = start_moto_server()
    host, port = server.get_host_and_port()
    credentials = {"access_key_id": "test", "secret_access_key": "test"}
    service = S3Service(f"http://{host}:{port}", "s3://stratalog", True, credentials)
    service.open().inner.client.create_bucket(Bucket="stratalog")
    yield service
    server.stop()


@pytest.fixture(scope="session")
def load_localstack():
    """Import a program of localstack/ by its path: the directory is no package, its name belongs to another one."""

    def load(name):
        path = Path(__file__).resolve().parents[2] / "localstack" / f"{name}.py"
        module_name = f"stratalog_localstack_{name}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            spec.loader.exec_module(module)
        return sys.modules[module_name]

    return load


@dataclass
class Spoiled:
    """S3 behind the fault proxy."""

    service: S3Service
    proxy: object
    rule: type
    prefix: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(self, **options):
        """Open a store whose requests go through the proxy."""
        return self.service.open(self.prefix, endpoint_url=self.proxy.url, **options)

    def rules(self, *rules):
        """Set the faults to come, each a dictionary of the rule's fields; the log begins anew."""
        self.proxy.script.replace([self.rule(**rule) for rule in rules])

    def seen(self, method=None):
        """Return the requests that came by since the rules were set."""
        return [entry for entry in self.proxy.script.seen if method in {None, entry.method}]


@pytest.fixture
def fault_proxy(s3_service, load_localstack, monkeypatch):
    """S3 behind an HTTP proxy that injects faults by rule; the SDK repeats without waiting."""
    if not (s3_service.endpoint_url or "").startswith("http://"):
        pytest.skip("the fault proxy stands before services on plain HTTP")
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    module = load_localstack("fault_proxy")
    with module.FaultProxy(s3_service.endpoint_url) as proxy:
        yield Spoiled(s3_service, proxy, module.Rule)


@pytest.fixture
def memory_store():
    """An empty store in memory."""
    return MemoryStore()


@pytest.fixture
def local_store(tmp_path):
    """An empty store in a directory, without fsync: these tests cut no power."""
    return LocalStore(str(tmp_path / "store"), sync=False)


@pytest.fixture
def s3_store(s3_service):
    """An empty prefix in the S3 bucket."""
    return s3_service.open(uuid.uuid4().hex)


@pytest.fixture
def fsspec_store():
    """An empty directory of fsspec's memory file system, opened for a single writer."""
    return open_store(f"memory://{uuid.uuid4().hex}/archive", single_writer=True)


class VirtualTime:
    """A clock that moves when a caller sleeps, and a record of the sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.sleeps = []

    def now_s(self):
        return self.now

    def sleep_s(self, seconds):
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.fixture
def virtual_time():
    """Time that passes only in sleeps."""
    return VirtualTime()


class LogBytes:
    """Makes ``.log`` bytes for tests: batches of known records, one after the other."""

    def __init__(self):
        self.partition = PartitionId("orders", bytes(range(16)), 3)

    def batch(self, base, count=10, *, timestamp_ms=1000, value=b"v" * 20, **options):
        """One batch of ``count`` records from offset ``base``; record ``i`` has the time ``timestamp_ms + base + i``."""
        records = [Record(base + i, timestamp_ms + base + i, b"k%d" % (base + i), value) for i in range(count)]
        return bytes(build_batch(records, **{"leader_epoch": 1, **options}))

    def segment(self, base, batches, count=10, **options):
        """``batches`` batches of ``count`` records each, from offset ``base``."""
        return b"".join(self.batch(base + i * count, count, **options) for i in range(batches))


@pytest.fixture
def log_bytes():
    """A maker of log bytes for one partition."""
    return LogBytes()


@pytest.fixture
def make_entry(log_bytes):
    """Makes manifest entries that no object backs."""

    def make(base, end, epoch=1, **fields):
        uuid = fields.pop("uuid", None) or base.to_bytes(8, "big") + end.to_bytes(4, "big") + epoch.to_bytes(4, "big")
        known = {
            "size_bytes": 1000 + end - base,
            "data_bytes": 900,
            "crc32c": 1,
            "data_crc32c": 2,
            "chunks_position": 900,
            "chunks_bytes": 32,
            "min_timestamp_ms": base,
            "max_timestamp_ms": end - 1,
            "max_timestamp_offset": end - 1,
            "batch_count": 1,
            "record_count": end - base,
            "epochs": (LeaderEpoch(epoch, base),),
        }
        key = fields.pop("key", log_bytes.partition.segment_key(base, end, epoch, uuid))
        return Entry(uuid=uuid, base=base, end=end, epoch=epoch, key=key, **{**known, **fields})

    return make


@pytest.fixture(scope="session")
def damages():
    """The module ``damaged_archive.py``, loaded by its path: the directory of the tests is no package."""
    name = "stratalog_damaged_archive"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("damaged_archive.py"))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture
def archive(damages, memory_store, log_bytes):
    """A clean archive of two topics that can be damaged."""
    return damages.Damaged(memory_store, log_bytes)


@pytest.fixture
def write_archive(tmp_path, log_bytes):
    """Writes segments into an archive in a directory; returns the directory."""

    def write(*segments, **options):
        store = LocalStore(str(tmp_path / "archive"), sync=False)
        archive_log(store, log_bytes.partition, segments, now_ms=1, chunk_bytes=1000, **options)
        return tmp_path / "archive"

    return write
