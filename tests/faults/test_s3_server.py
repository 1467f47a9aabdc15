"""A broker on a real server of objects, from the first record to the last reader; `make test-s3` starts one."""

import os
import shutil
import subprocess
import sys
import uuid

import pytest

from stratalog.tier import open_store
from stratalog.tier.documents.keys import parse_key

pytestmark = [pytest.mark.s3]

READ_BY_SPARK = """
import sys
from stratalog import spark as sl
spark = sl.session("local[1]")
rows = spark.read.format("stratalog").option("subscribe", "t").load(sys.argv[1]).selectExpr("offset", "value").collect()
assert [row.offset for row in rows] == list(range(len(rows)))
print(len(rows), sum(len(row.value) for row in rows))
"""


@pytest.fixture
def bucket_url(request, monkeypatch):
    """A prefix of this test's own in the store of ``--store``; emptied afterwards."""
    given = request.config.getoption("--store")
    if not given or "://" not in given:
        pytest.skip("needs --store=s3://bucket or another store that other processes reach (make test-s3)")
    if not given.startswith(("s3:", "file:")):
        monkeypatch.setenv("STRATALOG_BUCKET_SINGLE_WRITER", "true")
    url = f"{given.rstrip('/')}/stratalog-end-to-end-{uuid.uuid4().hex}"
    yield url
    store = open_store(url)
    for upload in list(store.list_uploads("")):
        store.abort_upload(upload.key, upload.upload_id)
    store.delete_many([info.key for info in store.list("")])
    assert list(store.list("")) == []
    if url.startswith("file:"):
        shutil.rmtree(url.removeprefix("file://"))


def start_archive(start_tiered, bucket_url, **configs):
    """A broker on the bucket, with a topic ``t`` of 120 records."""
    if bucket_url.startswith("s3:"):
        configs = {"stratalog_bucket_region": "us-east-1", **configs}
    elif not bucket_url.startswith("file:"):
        configs = {"stratalog_bucket_single_writer": "true", **configs}
    tiered = start_tiered(bucket_url=bucket_url, **configs)
    tiered.topic("t", internal_segment_bytes=6_000)
    tiered.write("t", 24)
    tiered.roll("t")
    return tiered


@pytest.fixture
def archive(bucket_url, start_tiered):
    """A broker whose frozen records are only in the bucket."""
    tiered = start_archive(start_tiered, bucket_url)
    tiered.archived("t")
    return tiered


def test_records_only_in_the_bucket_are_read_back(archive):
    """Produced, archived, evicted, read by a client; and again after a restart."""
    log_start, local_start, remote_end, log_end = archive.offsets("t")
    assert (log_start, local_start, log_end) == (0, remote_end, remote_end)
    archive.check_reads("t")
    archive.node.restart()
    archive.check_reads("t")
    archive.write("t", 3)
    archive.check_reads("t")


def test_no_key_of_ours_is_a_directory_of_another(archive, bucket_url):
    """A store of files cannot hold `a` and `a/b`: every key of a lived-in archive is a leaf."""
    archive.topic("t.2", internal_segment_bytes=6_000)
    archive.write("t.2", 24)
    archive.archived("t.2")
    keys = {info.key for info in open_store(bucket_url).list("")}
    assert sum(key.endswith(".seg") for key in keys) > 2
    above = {key[:at] for key in keys for at in range(len(key)) if key[at] == "/"}
    assert keys & above == set()
    assert all(key.isascii() and "//" not in key for key in keys)
    for key in keys:
        if key.startswith("topics/"):
            parse_key(key)


def test_removed_records_leave_the_bucket_readable(archive):
    """DeleteRecords into the archived part: what remains is read."""
    half = archive.offsets("t")[2] // 2
    assert archive.delete_records("t", half) == half
    archive.check_reads("t", offset=half)


@pytest.fixture
def bucket_client(bucket_url):
    """A plain S3 client, the bucket's name and the prefix."""
    if not bucket_url.startswith("s3:"):
        pytest.skip("settings of S3")
    store = open_store(bucket_url, retry=None)
    return store.inner.client, store.inner.bucket, bucket_url.split("/", 3)[3]


def encrypts(client, bucket, prefix):
    """Whether the service encrypts on request."""
    try:
        told = client.put_object(Bucket=bucket, Key=f"{prefix}/trial", Body=b"", ServerSideEncryption="AES256")
    except client.exceptions.ClientError:
        return False
    return told.get("ServerSideEncryption") == "AES256"


def segments_of(bucket_url):
    """Keys of the archived objects."""
    return [info.key for info in open_store(bucket_url).list("") if info.key.endswith(".seg")]


def test_every_object_is_encrypted_or_none_is_written(bucket_url, bucket_client, start_tiered):
    """A service that does not encrypt gets no record; the broker goes on without it."""
    client, bucket, prefix = bucket_client
    encrypting = encrypts(client, bucket, prefix)
    tiered = start_archive(start_tiered, bucket_url, stratalog_bucket_server_side_encryption="AES256")
    if encrypting:
        tiered.archived("t")
        assert segments_of(bucket_url)
        for key in segments_of(bucket_url):
            head = client.head_object(Bucket=bucket, Key=f"{prefix}/{key}")
            assert head["ServerSideEncryption"] == "AES256"
    else:
        tiered.node.wait_until(lambda: tiered.node.node.tiering._requests.get("delete_many", 0) > 1)
        assert segments_of(bucket_url) == []
    tiered.check_reads("t")


def test_an_archive_without_new_checksums_is_as_good(bucket_client, bucket_url, start_tiered):
    """With Content-MD5 everything is archived and read back."""
    tiered = start_archive(start_tiered, bucket_url, stratalog_bucket_checksum="md5")
    tiered.archived("t")
    tiered.check_reads("t")
    client, bucket, prefix = bucket_client
    key = f"{prefix}/{segments_of(bucket_url)[0]}"
    assert "ChecksumCRC32C" not in client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_reads_the_archive(archive, bucket_url):
    """A Spark session of its own reads every archived record from the bucket, with nothing but the environment."""
    done = subprocess.run(
        [sys.executable, "-c", READ_BY_SPARK, bucket_url], capture_output=True, check=False, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr[-3000:]
    written = archive.written["t", 0][: archive.offsets("t")[2]]
    assert done.stdout.split()[-2:] == [str(len(written)), str(sum(len(value) for _, _, value in written))]
