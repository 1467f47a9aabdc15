"""Bucket URLs that can never work."""

import subprocess
import sys

import pytest

from stratalog.broker.settings import bucket_url
from stratalog.broker.settings.bucket_url import bucket_url_fault


@pytest.mark.parametrize("url", ["memory:", "memory:x", "s3://bucket/prefix", "s3://a.b-c", "s3://123"])
def test_possible_settings_are_not_refused(url):
    """Whether the store answers is not asked."""
    assert bucket_url_fault(url, read_only=False) == ""


@pytest.mark.parametrize("name", ["Bad_Bucket", "ab", "a" * 64, "-ab", "ab-", "a..b", "b\u00fccket"])
def test_names_that_no_bucket_can_have(name):
    """With the rule."""
    fault = bucket_url_fault(f"s3://{name}/x", read_only=True)
    assert f"no S3 bucket can be named {name!r}" in fault
    assert "3 to 63" in fault


def test_a_directory_is_made_or_cannot_be(tmp_path):
    """A file in the way, a file system that takes no directories; a reader makes none."""
    url = f"file://{tmp_path}/some%20where/bucket"
    assert bucket_url_fault(url, read_only=True) == ""
    assert not (tmp_path / "some where").exists()
    assert bucket_url_fault(url, read_only=False) == ""
    assert (tmp_path / "some where" / "bucket").is_dir()
    (tmp_path / "file").touch()
    for read_only in (True, False):
        fault = bucket_url_fault(f"file://{tmp_path}/file", read_only=read_only)
        assert f"{tmp_path}/file" in fault
    assert "cannot be made" in bucket_url_fault("file:///proc/nope", read_only=False)


def test_a_scheme_without_a_store_or_without_its_package(monkeypatch):
    """The missing package is named with the command that installs it."""
    pytest.importorskip("fsspec")
    assert "no store is known for s4://" in bucket_url_fault("s4://foo/bar", read_only=False)
    assert "can only be read" in bucket_url_fault("https://host/bar", read_only=False)
    found = bucket_url.find_spec
    monkeypatch.setattr(bucket_url, "find_spec", lambda name: None if name == "gcsfs" else found(name))
    assert "pip install 'stratalog[gcs]'" in bucket_url_fault("gs://foo/bar", read_only=False)
    monkeypatch.setattr(bucket_url, "find_spec", lambda name: None)
    assert "pip install 'stratalog[azure]'" in bucket_url_fault("abfs://foo/bar", read_only=True)


def test_a_start_with_such_a_bucket_ends_at_once(tmp_path):
    """Exit code 2 and a sentence; nothing is printed on stdout."""
    command = [sys.executable, "-m", "stratalog.cli.main", "serve", "--data", str(tmp_path / "data"), "--bucket"]
    found = subprocess.run(
        [*command, "s3://Bad_Bucket/x", "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, "")
    assert "stratalog.bucket.url (--bucket): no S3 bucket can be named 'Bad_Bucket'" in found.stderr
    assert "Traceback" not in found.stderr
