"""Settings of tiering from a file, against a running broker."""

from __future__ import annotations

import pytest


@pytest.fixture
def file(tmp_path, topic):
    """A file about the topic."""
    path = tmp_path / "tiering.toml"

    def write(*lines: str) -> str:
        path.write_text("\n".join((f"[topics.{topic}]", *lines)))
        return str(path)

    return write


def test_differences_are_shown_applied_and_gone(stratalog, topic, file) -> None:
    """A dry run changes nothing; the second time there is nothing to do."""
    path = file("remote.storage.enable = true", 'local.retention.ms = "6h"')
    rows = stratalog("apply", path, "--dry-run", "--json").rows
    assert rows == [
        {"topic": topic, "setting": "remote.storage.enable", "now": None, "wanted": "true"},
        {"topic": topic, "setting": "local.retention.ms", "now": None, "wanted": "21600000"},
    ]
    assert stratalog("apply", path, "--json").rows == rows
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {"remote.storage.enable": "true", "local.retention.ms": "21600000"}
    again = stratalog("apply", path)
    assert "0 settings of 0 topics changed; 1 topics are as wanted." in again.err
    path = file('local.retention.ms = "default"')
    assert stratalog("apply", path, "--json").rows == [
        {"topic": topic, "setting": "local.retention.ms", "now": "21600000", "wanted": None}
    ]
    stratalog("topic", "delete", topic)


def test_no_topic_is_changed_if_one_is_refused(stratalog, topic, file, tmp_path) -> None:
    """The broker checks all of them first."""
    stratalog("topic", "create", "zz-refused")
    path = file("remote.storage.enable = true")
    with open(path, "a") as more:  # noqa: PTH123 - a text path
        more.write("\n[topics.zz-refused]\nremote.storage.enable = true\nretention.ms = 5\nlocal.retention.ms = 6\n")
    refused = stratalog("apply", path, code=1)
    assert "local.retention.ms" in refused.err
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {}
    stratalog("topic", "delete", "zz-refused")


@pytest.mark.parametrize(
    ("line", "code"), [("retention.mss = 5", 2), ("[topics.absent]\nretention.ms = 5", 3), ("retention.ms = 'x'", 2)]
)
def test_wrong_files_have_their_codes(stratalog, file, line, code) -> None:
    """Usage, and not found."""
    stratalog("apply", file(line), code=code)


def test_a_file_that_is_no_text_is_named(stratalog, tmp_path) -> None:
    """It is a usage error, not a traceback."""
    path = tmp_path / "tiering.toml"
    path.write_bytes(b"[topics.caf\xe9]\n")
    assert "tiering.toml is no UTF-8" in stratalog("apply", str(path), code=2).err
