"""Policies against the requests that each role really makes, seen at the SDK's door."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import pytest

from stratalog.spark.source.archive import load_partitions
from stratalog.spark.source.fetch import ReadRequest, read_slices
from stratalog.spark.source.options import parse_options
from stratalog.spark.source.read_lease import give_back, take_lease
from stratalog.tier.care.verify import verify_bucket
from stratalog.tier.care.verify_partition import VerifyOptions
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.leases import finish_part, renew_lease
from stratalog.tier.manifests.manifest import Claimant
from stratalog.tier.messages.commands import (
    Claim,
    Commit,
    ReadBack,
    ReadFooter,
    ReadManifest,
    RemoveArchive,
    SetLogStart,
    TrashArchive,
    Upload,
)
from stratalog.tier.objects.segment_object import SegmentRequest
from stratalog.tier.planning.access_policy import ROLES, access_policy
from stratalog.tier.planning.slices import OffsetRange, cut_slices
from stratalog.tier.stores.probe import probe
from stratalog.tier.work.work import Worker
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import Invalid

PARTITION = PartitionId("t", bytes(16), 0)
US = Claimant(0, 0, bytes(15) + b"\1", 1)
LATER_MS = 1 << 50
ACTION_OF = {
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObjects": "s3:DeleteObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
}
"""The permission that Amazon S3 asks for each operation."""

Request = tuple[str, str, str]
"""Action, resource and listed prefix."""


@contextmanager
def recorded(client: Any, bucket: str) -> Iterator[set[Request]]:
    """The requests that leave the client."""
    seen: set[Request] = set()

    def on_call(params: dict[str, Any], model: Any, **_: Any) -> None:
        action = ACTION_OF[model.name]
        key = params["url_path"].lstrip("/").partition("?")[0].removeprefix(f"{bucket}/").removeprefix(bucket)
        resource = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else "")
        if model.name == "DeleteObjects":
            keys = re.findall(rb"<Key>([^<]+)</Key>", params["body"])
            assert keys
            seen.update((action, f"{resource}/{found.decode()}", "") for found in keys)
            return
        seen.add((action, resource, params["query_string"].get("prefix", "")))

    client.meta.events.register("before-call.s3", on_call, unique_id="recorded")
    try:
        yield seen
    finally:
        client.meta.events.unregister("before-call.s3", unique_id="recorded")


def allowing(policy: dict[str, Any], request: Request) -> list[tuple[str, str]]:
    """The (Sid, action) pairs of the policy that allow a request."""
    action, resource, prefix = request
    found = []
    for statement in policy["Statement"]:
        wanted = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", "*")
        if (
            action in statement["Action"]
            and fnmatchcase(resource, statement["Resource"])
            and fnmatchcase(prefix, wanted)
        ):
            found.append((statement["Sid"], action))
    return found


def broker_work(store: Any) -> None:
    """The life of an archive: probe, upload small and large, read, remove with what a crash left behind."""
    probe(store)
    worker = Worker(store)
    for command in (Claim(PARTITION, US, 0, 0), ReadManifest(PARTITION)):
        worker.execute(command)
    batch = bytes(build_batch([Record(0, 0, None, b"v" * 1000)], leader_epoch=0))
    done = worker.execute(Upload(SegmentRequest(PARTITION, bytes(16), 0, 1, 0, [batch]), US))
    uploaded = done.uploaded  # type: ignore[union-attr]
    for command in (
        Commit(PARTITION, US, (uploaded,), 0),
        ReadBack(PARTITION, 0, 1, 0, US),
        ReadFooter(PARTITION, uploaded.entry.key),
        SetLogStart(PARTITION, US, 0, 0, "x"),
    ):
        worker.execute(command)
    store.put_large(PARTITION.segment_key(1, 2, 0, bytes(16)), b"x" * (6 << 20), part_bytes=5 << 20)


def removal_work(store: Any) -> None:
    worker = Worker(store)
    newer = Claimant(0, 1, bytes(15) + b"\2", 1)
    worker.execute(TrashArchive(PARTITION, newer, 1, "gone"))
    for number in range(5):
        worker.execute(RemoveArchive(PARTITION, newer, LATER_MS + number, 0))


def spark_work(store: Any) -> None:
    ticket = take_lease(store, 3_600_000)
    assert ticket is not None
    renew_lease(store, ticket.uuid, ticket.duration_ms, ticket.created_ms)
    for archive in load_partitions(store, parse_options({"path": "x", "subscribe": "t"}).subscription):
        slices, _ = cut_slices(archive, OffsetRange(archive.log_start_offset, archive.end_offset))
        assert list(read_slices(store, slices, ReadRequest(("offset",))))
    assert not finish_part(store, ticket.uuid, 0, 2)
    give_back(store, ticket)


def scrub_work(store: Any) -> None:
    for deep in (False, True):
        assert list(verify_bucket(store, VerifyOptions(0, deep=deep)))


@pytest.fixture(params=["", "prod/eu"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.story
def test_each_role_may_do_what_it_does_and_no_more(s3_service: Any, prefix: str) -> None:
    """Every request is allowed, and every permission is needed for one."""
    if not s3_service.is_moto:
        pytest.skip("needs a bucket of its own")
    name = f"policy-{len(prefix)}"
    client = s3_service.open().inner.client
    client.create_bucket(Bucket=name)
    from stratalog.tier.stores.opening import open_store

    options = {"endpoint_url": s3_service.endpoint_url, "region": "us-east-1", **s3_service.credentials}
    url = f"s3://{name}/{prefix}".rstrip("/")
    store = open_store(url, single_put_bytes_max=5 << 20, **options)
    work: dict[str, list[Callable[[Any], None]]] = {
        "broker": [broker_work],
        "spark": [spark_work],
        "scrub": [scrub_work],
    }
    made: dict[str, set[Request]] = {}
    for role, steps in work.items():
        with recorded(client, name) as seen:
            for step in steps:
                step(store)
        made[role] = seen
    folder = f"{prefix}/" if prefix else ""
    client.create_multipart_upload(Bucket=name, Key=folder + PARTITION.segment_key(2, 3, 0, bytes(16)))
    with recorded(client, name) as seen:
        removal_work(store)
    made["broker"] |= seen
    for role, requests in made.items():
        policy = access_policy(role, url)
        used = {pair for request in requests for pair in allowing(policy, request)}
        assert [request for request in sorted(requests) if not allowing(policy, request)] == [], role
        assert used == {(one["Sid"], action) for one in policy["Statement"] for action in one["Action"]}, role


def test_roles_differ_in_what_they_write() -> None:
    """Spark writes its leases, verification nothing, and no role reaches beyond the prefix."""
    url = "s3://bucket/prod"
    put = ("s3:PutObject", "arn:aws:s3:::bucket/prod/topics/x", "")
    lease = ("s3:PutObject", "arn:aws:s3:::bucket/prod/leases/x", "")
    beside = ("s3:GetObject", "arn:aws:s3:::bucket/production/topics/x", "")
    listing = ("s3:ListBucket", "arn:aws:s3:::bucket", "production/")
    may = {
        role: [bool(allowing(access_policy(role, url), one)) for one in (put, lease, beside, listing)] for role in ROLES
    }
    assert may == {
        "broker": [True, True, False, False],
        "spark": [False, True, False, False],
        "scrub": [False, False, False, False],
    }


def test_a_bucket_policy_names_its_principal() -> None:
    """In every statement; the key of the encryption is for a policy of the role itself."""
    arn = "arn:aws:iam::111122223333:role/x"
    document = access_policy("spark", "s3://b", principal=arn)
    assert {one["Principal"]["AWS"] for one in document["Statement"]} == {arn}
    keyed = access_policy("scrub", "s3://b", kms_key="arn:aws:kms:k")
    assert keyed["Statement"][-1]["Action"] == ["kms:Decrypt"]
    assert "kms:GenerateDataKey" in access_policy("broker", "s3://b", kms_key="k")["Statement"][-1]["Action"]


@pytest.mark.parametrize(("role", "url"), [("root", "s3://b"), ("broker", "file:///b"), ("broker", "s3://")])
def test_other_roles_and_stores_have_no_policy(role: str, url: str) -> None:
    """Only S3 has this kind."""
    with pytest.raises(Invalid):
        access_policy(role, url)
