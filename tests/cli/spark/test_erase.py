"""The command ``erase``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.cli.spark import erase as cli_erase
from stratalog.cli.spark import main as spark_main
from stratalog.spark.jobs import erase as job
from stratalog.tier.manifests.manifest_store import change_manifest
from stratalog.tier.manifests.parts import Pin
from stratalog.tier.manifests.pins import pin
from stratalog.wire.errors import Invalid


@pytest.fixture
def store(rewrite_rig: Any, growing_archive: Any) -> Any:
    rewrite_rig.archive(growing_archive.store, rewrite_rig.make_history(1))
    return growing_archive.store


def run(store: Any, *arguments: str) -> Any:
    return CliRunner().invoke(
        cli, ["erase", "--bucket", store.url, "--topic", "t", "--without-spark", *arguments], catch_exceptions=True
    )


def test_one_command_by_three_names() -> None:
    """``stratalog erase``, ``python -m stratalog.spark erase`` and the program for spark-submit."""
    found = cli.get_command(None, "erase")  # type: ignore[arg-type]
    assert found is not None
    assert found.params is cli_erase.erase.params
    assert job.main is spark_main.main


@pytest.mark.story
def test_an_erasure_reports_the_copies_that_remain(rewrite_rig: Any, store: Any) -> None:
    """A dry run counts; then the records go, and the remaining copies are reported."""
    kept = [row for row in rewrite_rig.make_history(1).rows if row[1] not in (b"key-3", b"key-4")]
    dry = run(store, "--key", "key-3", "--key", "key-4", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "records would be erased" in dry.stdout
    manifest = rewrite_rig.manifest_of(store)
    change_manifest(
        store, manifest.partition, lambda found: pin(found, Pin("monday", 1, found.remote_end, 0), now_ms=5)
    )
    done = run(store, "--key", "key-3", "--key", "key-4", "--by", "me")
    assert done.exit_code == 0, done.output
    assert dry.stdout.partition(" would")[0] == done.stdout.partition(" were")[0]
    assert "record of it: audit/" in done.stdout
    assert "in the trash until the broker empties it" in done.stdout
    assert "The cut monday holds old objects" in done.stdout
    assert rewrite_rig.rows_of(store) == kept
    row = json.loads(run(store, "--key", "key-3", "--json").stdout)
    assert (row["erased"], row["kind"], row["cuts"], row["audit"][:6]) == (0, "erase", [], "audit/")


@pytest.mark.parametrize(("encoding", "text"), [("utf8", "key-3"), ("hex", "6b65792d33"), ("base64", "a2V5LTM=")])
def test_keys_come_from_a_file_in_many_writings(
    rewrite_rig: Any, store: Any, tmp_path: Path, encoding: str, text: str
) -> None:
    """One a line."""
    file = tmp_path / "keys.txt"
    file.write_text(f"{text}\n")
    found = run(store, "--key-file", str(file), "--key-encoding", encoding)
    assert found.exit_code == 0, found.output
    assert {row[1] for row in rewrite_rig.rows_of(store)} & {b"key-3", b"key-4"} == {b"key-4"}


def test_no_record_is_erased_if_one_of_several_topics_is_missing(rewrite_rig: Any, store: Any) -> None:
    """A misspelt name ends the command before the first topic has lost a record."""
    found = run(store, "--topic", "misspelt", "--key", "key-3")
    assert (found.exit_code, found.stdout) == (3, "")
    assert "topic 'misspelt' is not in the archive" in found.stderr
    assert rewrite_rig.rows_of(store) == rewrite_rig.make_history(1).rows


def test_a_text_that_is_no_key_is_refused(rewrite_rig: Any, store: Any) -> None:
    """So is nothing at all."""
    for arguments in (("--key", "xyz", "--key-encoding", "hex"), ("--key", "%", "--key-encoding", "base64"), ()):
        assert run(store, *arguments).exit_code != 0
    assert rewrite_rig.rows_of(store) == rewrite_rig.make_history(1).rows


def test_a_line_of_a_file_is_a_key_as_it_stands(tmp_path: Path) -> None:
    """Unicode's other line ends (U+2028, U+000B, U+0085) and a lone CR are part of the key; empty lines are no keys."""
    file = tmp_path / "keys.txt"
    file.write_bytes("\ufeffa\u2028b\n\nc\x0bd \r\ne\rf\x85\n\r\n".encode())
    assert cli_erase._lines(file) == ["a\u2028b", "c\x0bd ", "e\rf\x85"]
    file.write_bytes(b"a\xff\n")
    with pytest.raises(Invalid, match="is no UTF-8"):
        cli_erase._lines(file)
    assert cli_erase._keys(["\udcff", "é"], "utf8") == (b"\xff", "é".encode())


@pytest.mark.parametrize("option", ["endingTimestamp=5", "kafka.isolation.level=read_committed", "columns=key"])
def test_an_option_that_would_not_be_obeyed_is_refused(rewrite_rig: Any, store: Any, option: str) -> None:
    """An erasure looks through everything."""
    found = run(store, "--key", "key-3", "--option", option)
    assert found.exit_code == 2
    assert f"option '{option.partition('=')[0]}' is not for this command" in found.stderr
    assert rewrite_rig.rows_of(store) == rewrite_rig.make_history(1).rows
