"""`stratalog.open`: an archive in a Python program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import stratalog
from stratalog.spark.rows.schema import COLUMNS
from stratalog.tier import open_store
from stratalog.tier.manifests.leases import list_leases
from stratalog.wire.errors import Invalid, Unknown


def test_topics_partitions_and_objects_are_reported(file_archive: Any) -> None:
    """As tables and as lists."""
    with stratalog.open(file_archive.store.url) as archive:
        assert archive.url == file_archive.store.url
        assert archive.topics() == ["orders"]
        assert archive.ls() == ["orders"]
        assert archive.ls("orders") == ["orders/0", "orders/1", "orders/2"]
        assert [each["records"] for each in archive.ls("orders/1", detail=True)] == [100] * 4
        assert archive.segments().num_rows == 12
        orders = archive.topic("orders")
        assert orders.partitions() == dict.fromkeys(range(3), (0, 400))
        assert orders.segments().equals(archive.segments())
        with pytest.raises(Invalid, match="'nope' is not in the archive"):
            archive.ls("nope")


def test_a_topic_is_read_in_every_form(file_archive: Any) -> None:
    """The same rows; a query names the topic itself."""
    with stratalog.open(file_archive.store.url) as archive:
        orders = archive.topic("orders")
        table = orders.to_arrow(columns=["partition", "offset"])
        assert table.num_rows == 1200
        assert orders.scan(columns=["partition", "offset"]).read_all().equals(table)
        assert orders.to_polars(columns=["partition", "offset"]).to_arrow().equals(table)
        assert orders.to_pandas(partitions=[2], end=5)["offset"].tolist() == [0, 1, 2, 3, 4]
        assert orders.dataset(columns="value").schema.names == ["value"]
        found = duckdb.sql('select partition, max("offset") from orders group by 1 order by 1').fetchall()
        assert found == [(0, 399), (1, 399), (2, 399)]


def test_one_line_is_enough_and_leaves_no_lease(file_archive: Any) -> None:
    """The archive lives as long as what was opened from it."""
    before = {lease.uuid for lease in list_leases(file_archive.store)}
    assert stratalog.open(file_archive.store.url).topic("orders", batchBytes="1m").to_arrow().num_rows == 1200
    assert {lease.uuid for lease in list_leases(file_archive.store)} == before


@pytest.mark.story
def test_an_archive_in_s3_is_read_and_leased(file_archive: Any, s3_endpoint: str) -> None:
    """The same rows, with options that name the endpoint and the credentials; the lease is given back there too."""
    keys = {"access_key_id": "id", "secret_access_key": "secret"}
    store = open_store("s3://archive/opened/prefix", endpoint_url=s3_endpoint, **keys)
    for info in file_archive.store.list("topics/"):
        store.put(info.key, file_archive.store.get(info.key)[0])
    options = {"s3_endpoint": s3_endpoint, "s3_access_key": "id", "s3_secret_key": "secret", "s3_region": "us-east-1"}
    with stratalog.open("s3://archive/opened/prefix", **options) as archive:
        found = archive.topic("orders").to_arrow(columns=COLUMNS)
        assert len(list_leases(store)) == 1
    assert list_leases(store) == []
    assert found.equals(stratalog.open(file_archive.store.url).topic("orders").to_arrow(columns=COLUMNS))


def test_after_the_end_nothing_is_read(file_archive: Any) -> None:
    """Neither rows nor lists."""
    with stratalog.open(file_archive.store.url, lease=False) as archive:
        orders = archive.topic("orders")
    for read in (archive.topics, archive.segments, orders.partitions, orders.to_arrow):
        with pytest.raises(Invalid, match="was closed"):
            read()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "http://x"}, "unknown option 'endpoint'"),
        ({"s3_endpoint": "http://x"}, "option 's3.endpoint' has no meaning for the archive file:"),
        ({"s3_acces_key": "x"}, "unknown option 's3.acces-key'; did you mean 's3.access-key'"),
        ({"leaseSeconds": 0}, "option 'leaseSeconds' must be at least 1"),
    ],
)
def test_wrong_options_are_refused_when_it_is_opened(file_archive: Any, options: dict[str, Any], message: str) -> None:
    """By their names."""
    with pytest.raises(Invalid, match=message):
        stratalog.open(file_archive.store.url, **options)


def test_a_path_and_options_that_are_none_are_taken(file_archive: Any) -> None:
    """As a program has them that reads its settings from somewhere."""
    path = Path(file_archive.store.url.removeprefix("file://"))
    with stratalog.open(path, s3_region=None) as archive:
        assert archive.topic("orders", valueFormat=None).to_arrow() == archive.topic("orders").to_arrow()


def test_options_of_a_topic_hold_or_are_refused(file_archive: Any) -> None:
    """None is passed over in silence: nothing that names another topic, or that the archive has for all."""
    with stratalog.open(file_archive.store.url) as archive:
        for name in ("subscribe", "assign", "subscribePattern"):
            with pytest.raises(Invalid, match=f"option '{name}' has no meaning for topic 'orders'"):
                archive.topic("orders", **{name: "others"})
        for name in ("archive", "path", "lease", "leaseSeconds"):
            with pytest.raises(Invalid, match=f"option '{name}' holds for the whole archive"):
                archive.topic("orders", **{name: "1"})


def outcome(program: str) -> Any:
    """The JSON that a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", ["orders,orders2", "../orders", "ordrs", " orders"])
def test_one_name_is_one_topic(file_archive: Any, name: str) -> None:
    """A name that no topic can have is an unknown topic, not two of them and no error of the store."""
    with stratalog.open(file_archive.store.url) as archive, pytest.raises(Unknown, match="is not in the archive"):
        archive.topic(name).to_arrow()


def test_importing_stratalog_imports_nothing_heavy() -> None:
    """No large library and no room of the package is imported with it."""
    assert (
        outcome(
            "import sys, json; before = set(sys.modules); import stratalog; "
            "heavy = {'pyarrow', 'numpy', 'pyspark', 'boto3', 'aiohttp', 'asyncio'}; "
            "print(json.dumps([name for name in set(sys.modules) - before if name in heavy or 'stratalog.' in name]))"
        )
        == []
    )


@pytest.mark.story
def test_reading_needs_no_pyspark(file_archive: Any) -> None:
    """Reading into Arrow works without PySpark and without polars."""
    program = (
        "import sys, json; sys.modules.update(pyspark=None, polars=None); import stratalog; "
        f"print(json.dumps(stratalog.open({file_archive.store.url!r}).topic('orders').to_arrow().num_rows))"
    )
    assert outcome(program) == 1200


def test_the_error_without_pyarrow_names_the_package() -> None:
    """In the words of pip."""
    program = (
        "import sys, json; sys.modules['pyarrow'] = None; import stratalog\n"
        "try: stratalog.open('file:///x')\n"
        "except ModuleNotFoundError as error: print(json.dumps(str(error)))"
    )
    assert outcome(program) == "stratalog.open needs pyarrow: pip install 'stratalog[arrow]'"
