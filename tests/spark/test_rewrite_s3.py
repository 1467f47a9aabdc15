"""A compaction and an erasure of an archive in S3."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from stratalog.cli.spark.compact import compact
from stratalog.cli.spark.erase import erase
from stratalog.tier import open_store


@pytest.fixture
def store(s3_endpoint: str) -> Any:
    return open_store(
        "s3://archive/rewritten",
        endpoint_url=s3_endpoint,
        access_key_id="id",
        secret_access_key="secret",
        region="us-east-1",
    )


@pytest.mark.story
def test_conditional_writes_commit_there_too(rewrite_rig: Any, store: Any, s3_endpoint: str) -> None:
    """The store is asked first whether they hold; nothing is left over in the end."""
    history = rewrite_rig.make_history(6, steps=30)
    rewrite_rig.archive(store, history)
    where = [
        "--bucket",
        "s3://archive/rewritten",
        "--endpoint-url",
        s3_endpoint,
        "--region",
        "us-east-1",
        "--topic",
        "t",
    ]
    where += ["--option", "s3.access-key=id", "--option", "s3.secret-key=secret", "--without-spark", "--json"]
    erased = CliRunner().invoke(erase, [*where, "--key", "key-3"], catch_exceptions=False)
    assert erased.exit_code == 0, erased.output
    kept = [row for row in history.rows if row[1] != b"key-3"]
    assert rewrite_rig.rows_of(store) == kept
    assert [info.key for info in store.list("audit/")] == [json.loads(erased.stdout)["audit"]]
    compacted = CliRunner().invoke(compact, [*where, "--any-policy"], catch_exceptions=False)
    assert compacted.exit_code == 0, compacted.output
    assert rewrite_rig.rows_of(store) == rewrite_rig.History(rows=kept).newest()
    assert rewrite_rig.manifest_of(store).archive_clean_offset == history.offset
    assert {info.key.split("/")[0] for info in store.list("")} == {"audit", "topics"}
