"""Topic partitions and topic ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.wire.errors import Invalid
from stratalog.wire.topic import ZERO_UUID, TopicPartition, base_topic, topic_name_problem, uuid_parse, uuid_text


def test_a_partition_prints_as_its_directory_is_named():
    """Kafka's own form."""
    assert str(TopicPartition("flights", 3)) == "flights-3"


@given(st.binary(min_size=16, max_size=16))
def test_uuids_round_trip_through_their_text(uuid):
    """22 characters of base64url, no padding."""
    text = uuid_text(uuid)
    assert len(text) == 22
    assert uuid_parse(text) == uuid


def test_the_zero_uuid_prints_as_kafka_prints_it():
    """The text in Kafka's own tools."""
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "?" * 22, "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAA/"])
def test_other_texts_are_refused(text):
    """Wrong length, wrong alphabet, stray bits."""
    with pytest.raises(Invalid, match="is not a uuid"):
        uuid_parse(text)


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "n" * 249])
def test_legal_names_have_no_problem(name):
    """ASCII letters, digits and three more characters."""
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a b", "\u00e4", "a\n", "n" * 250])
def test_other_names_have_one(name):
    """In words; a path is among them."""
    assert topic_name_problem(name)


def test_rules_of_access_are_those_of_the_topic_shown():
    """Every way to write a view of a topic, also a broken one, gives the topic's own name."""
    names = ["orders@x", "orders..at..x", "orders@", "orders@a@b", "orders"]
    assert {base_topic(name) for name in names} == {"orders"}
