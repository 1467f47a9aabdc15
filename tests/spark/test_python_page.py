"""Every block of ``docs/python.md`` does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs

from stratalog.tier import open_store
from stratalog.tier.manifests.leases import list_leases
from stratalog.wire.batch import Record, build_batch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
JULY_MS = 1_372_896_000_000
HOUR_MS = 3_600_000


def flight(number: int) -> bytes:
    delay = None if number % 10 == 0 else number / 2
    return json.dumps({"carrier": "UA" if number % 2 else "AA", "flight": number, "dep_delay": delay}).encode()


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Topic ``flights``: two partitions with a flight an hour, 1,200 of them, from three weeks before the 4th of July on."""
    builder = request.getfixturevalue("memory_archive")
    builder.store = open_store(tmp_path.as_uri())
    for partition in (0, 1):
        batches = [
            build_batch([Record(n, JULY_MS + (n - 500) * HOUR_MS, b"k", flight(n)) for n in range(at, at + 100)])
            for at in range(0, 1200, 100)
        ]
        builder.add("flights", partition, *(bytes(batch) for batch in batches))
    return tmp_path.as_uri()


@pytest.fixture
def lake(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An S3 server whose bucket ``lake`` holds one Parquet file of flights; the environment has its credentials."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    files = s3fs.S3FileSystem(endpoint_url=s3_endpoint, skip_instance_cache=True)
    files.makedirs("lake", exist_ok=True)  # the server is that of all tests of this process
    if files.exists("lake/flights"):
        files.rm("lake/flights", recursive=True)
    table = pa.table({"offset": range(5), "value": [flight(number) for number in range(5)], "key": [b"k"] * 5})
    pq.write_table(table, "lake/flights/part-0.parquet", filesystem=files)
    return s3_endpoint


@pytest.mark.story
def test_every_block_runs(url: str, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as a user would type them; they find the written rows."""
    names: dict[str, Any] = {}
    for block in BLOCKS:
        text = block.replace("file:///srv/archive", url).replace("http://127.0.0.1:9000", lake)
        exec(compile(text, "docs/python.md", "exec"), names)
    shown = capsys.readouterr().out
    assert "2400 {0: (0, 1200), 1: (0, 1200)}" in shown
    assert names["day"].num_rows == 48
    assert names["some"].num_rows == 100
    assert "['offset', 'value.carrier', 'value.flight', 'value.dep_delay', 'valueError']" in shown
    assert names["flat"]["value.flight"].to_pylist() == list(range(1200)) * 2
    assert names["flat"]["valueError"].null_count == 2400
    assert names["total_bytes"] > sum(len(flight(number)) for number in range(1200)) * 2
    assert len(names["frame"]) == 2000
    assert sorted(names["newest"].rows()) == [(0, 1199), (1, 1199)]
    july_bytes = str(sum(len(flight(number)) for number in range(500, 1200)))
    assert sorted(re.findall(r"│ +(\d) │ +700 │ +(\d+) │", shown)) == [("0", july_bytes), ("1", july_bytes)]
    assert "['flights/0', 'flights/1']" in shown
    assert names["mine"].url == "s3://archive/prod"
    assert names["counted"] == 2400
    assert names["lake"].to_dict("list") == {"offset": [*range(5)], "value": [flight(number) for number in range(5)]}
    names.clear()
    assert list_leases(open_store(url)) == []


def test_the_page_has_its_blocks() -> None:
    """A page whose blocks are not found would prove nothing."""
    assert len(BLOCKS) >= 8
