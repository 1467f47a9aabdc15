"""The whole way to S3 and back over HTTP, through a proxy that fails: the worker process, its retries, its probe."""

import importlib.util
import os
import sys
import uuid
from pathlib import Path

import boto3
import pytest

from stratalog.tier import open_store
from stratalog.tier.manifests.manifest_store import read_manifest


@pytest.fixture
def s3_bucket(request, monkeypatch):
    """Endpoint and URL of a prefix in S3: moto's, or that of ``--store`` if it is behind plain HTTP; emptied afterwards."""
    given = request.config.getoption("--store")
    if given:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3", "")
        if not (given.startswith("s3:") and endpoint.startswith("http://")):
            pytest.skip("the fault proxy stands before S3 services on plain HTTP")
        url = f"{given.rstrip('/')}/stratalog-faults-{uuid.uuid4().hex}"
        yield endpoint, url
        store = open_store(url)
        store.delete_many([info.key for info in store.list("")])
        return
    from tests.moto_server import start_moto_server

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = start_moto_server()
    host, port = server.get_host_and_port()
    boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1").create_bucket(Bucket="archive")
    yield f"http://{host}:{port}", "s3://archive/some/prefix"
    server.stop()


@pytest.fixture
def proxy(s3_bucket):
    """The S3 service behind a proxy that obeys rules; credentials are in the environment, as a worker finds them."""
    path = Path(__file__).resolve().parents[2] / "localstack" / "fault_proxy.py"
    spec = importlib.util.spec_from_file_location("stratalog_localstack_fault_proxy", path)
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    with module.FaultProxy(s3_bucket[0]) as running:
        running.rule = module.Rule
        yield running


@pytest.mark.story
@pytest.mark.store
def test_s3_that_fails_now_and_then(s3_bucket, proxy, start_tiered):
    """Requests refused, reset, answered with errors after they were done, or damaged: archived once, read back right."""
    tiered = start_tiered(
        bucket_url=s3_bucket[1],
        stratalog_bucket_endpoint_url=proxy.url,
        stratalog_bucket_region="us-east-1",
    )
    tiered.topic("t", internal_segment_bytes=6_000)
    tiered.write("t", 20)
    tiered.archived("t")
    rules = [
        {"action": "status", "method": "PUT", "count": 2},
        {"action": "drop_after_commit", "method": "PUT", "path": "manifest", "count": 1},
        {"action": "fail_after_commit", "method": "PUT", "path": r"\.seg", "status": 500, "code": "InternalError"},
        {"action": "reset", "method": "HEAD", "count": 1},
        {"action": "corrupt", "method": "GET", "path": r"\.seg", "count": 1},
        {"action": "truncate", "method": "GET", "path": r"\.seg", "count": 1},
    ]
    proxy.script.replace([proxy.rule(**rule) for rule in rules])
    tiered.write("t", 60)
    tiered.check_reads("t", 0, tiered.offsets("t")[1])
    tiered.archived("t")
    tiered.check_reads("t")
    assert sum(bool(one.action) for one in proxy.script.seen) >= 6
    store = open_store(s3_bucket[1], endpoint_url=proxy.url, region="us-east-1")
    manifest = read_manifest(store, tiered.partition_id("t")).manifest
    at = 0
    for entry in manifest.entries:
        assert entry.base == at
        assert store.head(entry.key).size_bytes == entry.size_bytes
        at = entry.end
    assert at == manifest.remote_end == tiered.offsets("t")[2]
