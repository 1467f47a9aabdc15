"""Settings of the tier, against a running broker."""

from __future__ import annotations

import pytest


def test_settings_of_the_tier_take_units(stratalog, topic) -> None:
    """Under Kafka's names in the end."""
    stratalog(
        "tier", "set", topic, "--enable", "--local-retention-bytes", "100MiB", "--local-retention-ms", "6h",
        "--retention-ms", "-1", "--segment-ms", "1h", "--segment-bytes", "64MiB"    )  # fmt: skip
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {
        "remote.storage.enable": "true",
        "local.retention.bytes": str(100 << 20),
        "local.retention.ms": "21600000",
        "retention.ms": "-1",
        "segment.ms": "3600000",
        "segment.bytes": str(64 << 20),
    }
    stratalog("topic", "delete", topic)


def test_uploads_are_stopped_and_resumed(stratalog, topic) -> None:
    """remote.log.copy.disable, there and back; Kafka wants local retention to equal retention for it."""
    stratalog("tier", "set", topic, "--enable", "--stop-copy")
    stratalog("tier", "set", topic, "--resume-copy")
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"]["remote.log.copy.disable"] == "false"
    refused = stratalog("tier", "set", topic, "--stop-copy", "--local-retention-bytes", "1MiB", code=1)
    assert "must be set to the identical value" in refused.err
    stratalog("topic", "delete", topic)


def test_a_dry_run_changes_nothing(stratalog, topic) -> None:
    """The broker checks it."""
    assert "Would set" in stratalog("tier", "set", topic, "--retention-ms", "5", "--dry-run").err
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "nope", "--enable"), 3),
        (("set", "{topic}"), 2),
        (("set", "{topic}", "--segment-bytes", "1 MB"), 2),
    ],
)
def test_wrong_settings_have_their_codes(stratalog, topic, arguments, code) -> None:
    """Not found, and usage."""
    stratalog("tier", *(text.format(topic=topic) for text in arguments), code=code)
