"""Looking into files from the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.wire.batch import Record, build_batch

NAME = "00000000000000000000.log"


@pytest.fixture
def segment(tmp_path):
    """A segment with two batches; its path."""
    path = tmp_path / NAME
    path.write_bytes(build_batch([Record(0, 5, b"k", b"a b")]) + build_batch([Record(1, 6, None, b"\xff")]))
    return path


def dump(*arguments: str):
    """Run the command."""
    return CliRunner().invoke(cli, ["dump", *map(str, arguments)])


def test_a_line_shows_one_thing(segment) -> None:
    """Names and values; the summary is last."""
    result = dump(segment, "--records")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("batch position=0 base_offset=0 last_offset=0 records=1 ")
    assert lines[1] == 'record offset=0 timestamp=5 key="k" value="a b" headers=[]'
    assert lines[-1].startswith("summary batches=2 records=2 first_offset=0 end_offset=2 ")


def test_json_shows_the_same(segment) -> None:
    """Bytes that are no text as base64."""
    rows = [json.loads(line) for line in dump(segment, "--records", "--json").stdout.splitlines()]
    assert [row["what"] for row in rows] == ["batch", "record", "batch", "record", "summary"]
    assert rows[3]["value"] == {"base64": "/w=="}


def test_a_problem_is_exit_code_1(segment) -> None:
    """On stdout with its place, and alone if wanted."""
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    result = dump(segment, "--problems")
    assert result.exit_code == 1
    problem, summary = result.stdout.splitlines()
    assert problem.startswith("PROBLEM position=")
    assert "offset=1" in problem
    assert summary.startswith("summary ")
    assert result.stderr == "1 problems.\n"


def test_several_files_are_distinguished(segment, tmp_path) -> None:
    """By a line of their own, or by a field."""
    other = tmp_path / "meta.properties"
    other.write_text("version=1\ncluster.id=x\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert str(other) in dump(segment, other).stdout.splitlines()
    rows = [json.loads(line) for line in dump(segment, other, "--json").stdout.splitlines()]
    assert {row["file"] for row in rows} == {str(segment), str(other)}


def test_missing_and_unknown_files_have_their_codes(tmp_path) -> None:
    """A missing file ends with exit code 3, a file of an unknown kind with 2."""
    assert dump(tmp_path / NAME).exit_code == 3
    assert dump(f"file://{tmp_path}/bucket/x.seg").exit_code == 3
    (tmp_path / "notes.txt").write_text("x")
    assert dump(tmp_path / "notes.txt").exit_code == 2
    assert dump("nowhere://x/y.seg").exit_code in {2, 3}


@pytest.mark.story
def test_a_running_brokers_own_files_are_in_order(stratalog, live_broker, topic) -> None:
    """The log of a topic, the metadata log and the small files of the directory."""
    stratalog("produce", topic, "-p", "0", stdin="hello\n")
    files = [
        live_broker.data / f"{topic}-0" / NAME,
        live_broker.data / "__cluster_metadata-0" / NAME,
        live_broker.data / "meta.properties",
        live_broker.data / f"{topic}-0" / "partition.metadata",
    ]
    result = dump(*files, "--records", "--json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row.get("type") for row in rows} >= {"TopicRecord", "PartitionRecord", "leader_change"}
    assert "hello" in [row.get("value") for row in rows]
