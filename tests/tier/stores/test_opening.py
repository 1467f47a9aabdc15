from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote

import pytest

from stratalog.tier import open_store
from stratalog.tier.stores.local_store import LocalStore
from stratalog.tier.stores.memory_store import MemoryStore
from stratalog.tier.stores.opening import provide_store, withdraw_store
from stratalog.tier.stores.prefix_store import PrefixStore
from stratalog.tier.stores.retrying_store import RetryingStore, RetryPolicy
from stratalog.tier.stores.s3.store import S3Store
from stratalog.tier.stores.store import UnsupportedOperation


def test_a_memory_name_is_one_store_in_the_process():
    """The same URL gives the same store, another name another."""
    assert open_store("memory:shared") is open_store("memory:shared")
    assert open_store("memory:shared") is not open_store("memory:other")
    assert isinstance(open_store("memory:"), MemoryStore)


def test_a_file_url_is_a_directory(tmp_path):
    """file:///path, with escapes, opens and creates the directory."""
    store = open_store(f"file://{tmp_path}/with%20blank", sync=False)
    assert isinstance(store, LocalStore)
    assert (tmp_path / "with blank").is_dir()
    assert store.url == f"file://{tmp_path}/with%20blank"
    assert isinstance(open_store(f"file://localhost{tmp_path}"), LocalStore)


def test_an_s3_url_is_retried_and_prefixed():
    """s3://bucket/prefix is the bucket's store below the prefix, with the retry loop around it."""
    policy = RetryPolicy(deadline_s=1.0)
    store = open_store("s3://bucket/a/b/", endpoint_url="http://127.0.0.1:1", retry=policy, upload_threads=2)
    assert isinstance(store, RetryingStore)
    assert isinstance(store.inner, PrefixStore)
    assert isinstance(store.inner.inner, S3Store)
    assert store.url == "s3://bucket/a/b"
    assert store.inner.inner.settings.endpoint_url == "http://127.0.0.1:1"
    assert isinstance(open_store("s3://bucket", retry=None), S3Store)


def test_a_path_is_short_for_its_file_url(tmp_path):
    """Blanks and percent signs in it are no escapes."""
    folder = tmp_path / "a b%20c"
    open_store(str(folder)).put("k", b"1")
    assert open_store(f"file://{quote(str(folder))}").get("k")[0] == b"1"


@pytest.mark.parametrize(
    "url",
    ["", "var/data", "file:relative", "file://host/path", "s3:///prefix", "s3://b/p?x=1", "s3://k:s@b/p", "s3:b"],
)
def test_a_url_without_a_store_is_refused_with_advice(url):
    """A path, a relative or foreign file URL and a malformed bucket say how to write it."""
    with pytest.raises(UnsupportedOperation, match="Write file:///path"):
        open_store(url)


def test_the_package_has_nothing_else():
    """The lazy export does not hide spelling mistakes, and importing the package loads no store."""
    import stratalog.tier

    with pytest.raises(AttributeError, match="open_shop"):
        stratalog.tier.open_shop  # noqa: B018
    script = (
        "import sys, stratalog.tier\nassert not any('store' in name for name in sys.modules if 'stratalog' in name)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_memory_name_may_stand_for_any_store():
    """Until it is withdrawn; other URLs cannot be provided."""
    store = MemoryStore("memory:provided")
    provide_store("memory:provided", store)
    assert open_store("memory:provided") is store
    withdraw_store("memory:provided")
    withdraw_store("memory:provided")
    assert open_store("memory:provided") is not store
    with pytest.raises(UnsupportedOperation, match="memory:NAME"):
        provide_store("file:///tmp", store)
