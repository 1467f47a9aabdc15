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


def test_every_setting_of_tiering_can_be_set_and_unset(stratalog, topic) -> None:
    """The newer ones too; notes are printed."""
    told = stratalog(
        "tier", "set", topic, "--enable", "--retention-ms", "-1", "--local-retention-ms", "1d", "--copy-lag-ms", "1h",
        "--copy-lag-bytes", "1GiB", "--upload-lag-ms", "2h", "--part-bytes", "32MiB", "--storage-class", "ONEZONE_IA",
        "--delete-archive"
    ).err  # fmt: skip
    assert "For 7200000 ms what is written exists on local disks only" in told
    assert "ONEZONE_IA keeps objects less safely" in told
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert set(described["configs"]) == {
        "remote.storage.enable", "retention.ms", "local.retention.ms", "remote.copy.lag.ms", "remote.copy.lag.bytes",
        "stratalog.upload.lag.ms", "stratalog.upload.part.bytes", "stratalog.storage.class",
        "remote.log.delete.on.disable"
    }  # fmt: skip
    stratalog("tier", "set", topic, "--unset", "stratalog.storage.class", "--unset", "stratalog.upload.lag.ms")
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert not {"stratalog.storage.class", "stratalog.upload.lag.ms"} & set(described["configs"])
    stratalog("topic", "delete", topic)


def test_bounds_are_checked_by_the_broker(stratalog, topic) -> None:
    """With what to do."""
    refused = stratalog("tier", "set", topic, "--enable", "--local-retention-ms", "1h", "--upload-lag-ms", "2h", code=1)
    assert "Lower stratalog.upload.lag.ms, or raise local.retention.ms" in refused.err


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
        (("set", "{topic}", "--segment-bytes", "1 XB"), 2),
    ],
)
def test_wrong_settings_have_their_codes(stratalog, topic, arguments, code) -> None:
    """Missing topics and wrong usage end with their own exit codes."""
    stratalog("tier", *(text.format(topic=topic) for text in arguments), code=code)


def test_a_misspelt_setting_is_not_reported_as_default(stratalog, topic) -> None:
    """A broker would take away what is not there, and the setting that was meant would stay."""
    stratalog("tier", "set", topic, "--retention-ms", "1d")
    refused = stratalog("tier", "set", topic, "--unset", "retention.m", code=2)
    assert "Unknown setting retention.m: did you mean retention.ms?" in refused.err
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    assert described["configs"] == {"retention.ms": "86400000"}
    stratalog("topic", "delete", topic)
