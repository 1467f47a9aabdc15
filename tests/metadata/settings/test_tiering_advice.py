"""The notes about settings that are allowed."""

from __future__ import annotations

import pytest

from stratalog.metadata.settings.by_name import topic_definitions
from stratalog.metadata.settings.resolution import ConfigResolver
from stratalog.metadata.settings.tiering_advice import TIERING_NAMES, tiering_advice

QUIET = {"remote.storage.enable": "true", "local.retention.ms": "3600000"}


def advice(overrides: dict[str, str]) -> list[str]:
    values = {name: entry.value for name, entry in ConfigResolver.for_topics().resolve(overrides).items()}
    return tiering_advice(values)


def test_a_usual_choice_needs_no_advice() -> None:
    """No advice is given for usual settings, for a topic that is not tiered, and for one that is no longer copied."""
    assert advice(QUIET) == []
    assert advice({"stratalog.storage.class": "ONEZONE_IA"}) == []
    assert advice({"remote.storage.enable": "true", "remote.log.copy.disable": "true"}) == []


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"remote.copy.lag.ms": "60000"}, "For 60000 ms what is written exists on local disks only"),
        ({"remote.copy.lag.ms": "-1"}, "For 3600000 ms"),
        ({"stratalog.upload.lag.ms": "5"}, "For 5 ms"),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "-1", "retention.ms": "-1"}, "Nothing is ever uploaded"),
        (
            {
                "remote.copy.lag.ms": "-1",
                "remote.copy.lag.bytes": "9",
                "local.retention.ms": "-1",
                "retention.ms": "-1",
            },
            "once 9 bytes lie behind",
        ),
        ({"local.retention.ms": "-2"}, "nothing leaves the local disk before it expires"),
        ({"local.retention.bytes": "5"}, "less than one segment"),
        ({"stratalog.storage.class": "STANDARD_IA"}, "for 30 days at least; retention.ms removes it after 7"),
        ({"stratalog.storage.class": "ONEZONE_IA", "retention.ms": "-1"}, "less safely"),
    ],
)
def test_each_choice_with_a_price_has_a_note(overrides: dict[str, str], words: str) -> None:
    """One sentence that names the number."""
    assert any(words in text for text in advice(QUIET | overrides))


def test_a_lag_that_the_other_one_takes_away_is_none() -> None:
    """0 in either is at once."""
    assert advice(QUIET | {"remote.copy.lag.ms": "60000", "remote.copy.lag.bytes": "0"}) == []


def test_every_name_is_a_topic_setting() -> None:
    """The list is what commands and HTTP offer."""
    assert set(TIERING_NAMES) <= set(topic_definitions())
