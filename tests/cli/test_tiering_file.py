"""The file that says how topics are to be archived."""

from __future__ import annotations

import pytest

from stratalog.cli.tiering_file import SettingChange, changes_of, read_tiering_file
from stratalog.wire.errors import Invalid

FILE = """
[topics.orders]
remote.storage.enable = true
local.retention.ms = "6h"
"segment.bytes" = "64MiB"
retention.ms = -1
stratalog.storage.class = "default"

[topics."a.b"]
remote.copy = { lag.ms = 5, lag.bytes = "1GiB" }
"""
WANTED = {
    "orders": {
        "remote.storage.enable": "true",
        "local.retention.ms": "21600000",
        "segment.bytes": str(64 << 20),
        "retention.ms": "-1",
        "stratalog.storage.class": None,
    },
    "a.b": {"remote.copy.lag.ms": "5", "remote.copy.lag.bytes": str(1 << 30)},
}


def test_settings_are_read_with_their_units() -> None:
    """Dotted, quoted or in tables."""
    assert read_tiering_file(FILE) == WANTED
    assert read_tiering_file("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "x.toml is not TOML"),
        ("[orders]", "'orders' has no meaning here; write \\[topics.NAME\\]"),
        ("topics = 1", "topics is no table"),
        ("[topics]\norders = 1", "\\[topics.orders\\] is no table"),
        ("[topics.orders]\nlocal.retention.mss = 1", "did you mean local.retention.ms?"),
        ("[topics.orders]\nzzz = 1", "those are remote.storage.enable"),
        ("[topics.orders]\nsegment.ms = 'soon'", "segment.ms: 'soon' is not a time span"),
        ("[topics.orders]\nsegment.bytes = '1 XB'", "is not a size"),
        ("[topics.orders]\nsegment.bytes = 1.5", "not 1.5"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(text: str, words: str) -> None:
    """File, topic, setting."""
    with pytest.raises(Invalid, match=words):
        read_tiering_file(text, "x.toml")


def test_only_differences_change_anything() -> None:
    """A setting as wanted stays, and so does one that the file does not
    name; the default is having none of one's own.
    """
    own = {
        "orders": {"retention.ms": "-1", "segment.ms": "7", "stratalog.storage.class": "X"},
        "a.b": dict(WANTED["a.b"]),
    }
    assert changes_of(WANTED, own) == [
        SettingChange("orders", "remote.storage.enable", None, "true"),
        SettingChange("orders", "local.retention.ms", None, "21600000"),
        SettingChange("orders", "segment.bytes", None, str(64 << 20)),
        SettingChange("orders", "stratalog.storage.class", "X", None),
    ]
    applied = {topic: {name: text for name, text in rows.items() if text is not None} for topic, rows in WANTED.items()}
    assert changes_of(WANTED, applied) == []
