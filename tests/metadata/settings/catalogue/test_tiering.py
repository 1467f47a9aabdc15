"""Topic settings of tiering beyond those of Kafka 4.3."""

import pytest

from stratalog.metadata.settings.catalogue.tiering import TIERING_BROKER_SETTINGS, TIERING_TOPIC_SETTINGS
from stratalog.metadata.settings.catalogue.types import ConfigError
from stratalog.tier.objects.segment_upload import PART_BYTES

_ROWS = {row.name: row for row in TIERING_TOPIC_SETTINGS}


def test_the_copy_lag_has_kafkas_defaults():
    """At once, by KIP-1241."""
    assert (_ROWS["remote.copy.lag.ms"].default, _ROWS["remote.copy.lag.bytes"].default) == (0, -1)
    with pytest.raises(ConfigError, match="at least -1"):
        _ROWS["remote.copy.lag.ms"].parse("-2")


def test_each_has_a_broker_default_that_can_change():
    """Ours under the same name, Kafka's with log. before it; both take the same values."""
    brokers = {row.name: row for row in TIERING_BROKER_SETTINGS}
    assert brokers.keys() == {name if name.startswith("stratalog.") else f"log.{name}" for name in _ROWS}
    assert all(row.is_dynamic for row in brokers.values())
    for row in TIERING_TOPIC_SETTINGS:
        (synonym,) = row.synonyms
        broker = brokers[synonym.name]
        assert (broker.type, broker.default, broker.valid_values) == (row.type, row.default, row.valid_values)


def test_the_default_part_is_that_of_the_upload():
    """One number, in two rooms."""
    assert _ROWS["stratalog.upload.part.bytes"].default == PART_BYTES


@pytest.mark.parametrize("name", ["", "STANDARD_IA", "GLACIER_IR", "cold-tier".upper()])
def test_classes_that_can_be_read_at_once_are_accepted(name):
    """Services may have names of their own."""
    assert _ROWS["stratalog.storage.class"].parse(name) == name


@pytest.mark.parametrize(
    ("name", "words"), [("GLACIER", "GLACIER_IR can be read at once"), ("standard", "as S3 names it"), ("A B", "as S3")]
)
def test_other_classes_are_refused(name, words):
    """A reader does not wait for hours."""
    with pytest.raises(ConfigError, match=words):
        _ROWS["stratalog.storage.class"].parse(name)
