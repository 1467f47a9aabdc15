"""Which of eight levels holds for a client, and with whom he shares it."""

import itertools

import pytest

from stratalog.metadata.image.quotas_image import QuotasImage, entity_of, record_of
from stratalog.metadata.quotas.resolution import NO_QUOTAS, QuotaTable

KEY = "producer_byte_rate"
LEVELS = [
    ({"user": "alice", "client-id": "etl"}, ("alice", "etl")),
    ({"user": "alice", "client-id": None}, ("alice", "etl")),
    ({"user": "alice"}, ("alice", "")),
    ({"user": None, "client-id": "etl"}, ("alice", "etl")),
    ({"user": None, "client-id": None}, ("alice", "etl")),
    ({"user": None}, ("alice", "")),
    ({"client-id": "etl"}, ("", "etl")),
    ({"client-id": None}, ("", "etl")),
]


def table(*levels, key=KEY):
    """A table with a quota of ``number + 1`` at each of these levels."""
    image = QuotasImage()
    for number in levels:
        image = image.with_record(record_of(entity_of(LEVELS[number][0]), key, float(number + 1)))
    return QuotaTable(image)


@pytest.mark.parametrize("levels", [one for count in (1, 2, 3) for one in itertools.combinations(range(8), count)])
def test_the_most_specific_level_holds(levels):
    """The first of the set levels in Kafka's order holds."""
    quota = table(*levels).of_client(KEY, "alice", "etl")
    assert quota == (levels[0] + 1.0, LEVELS[levels[0]][1])


def test_others_are_limited_by_the_defaults_alone():
    """Levels with a name are for that name."""
    everything = table(*range(8))
    assert everything.of_client(KEY, "bob", "other") == (5.0, ("bob", "other"))
    assert everything.of_client(KEY, "bob", "etl") == (4.0, ("bob", "etl"))
    assert everything.of_client(KEY, "alice", "other") == (2.0, ("alice", "other"))
    assert table(0, 2, 6).of_client(KEY, "bob", "other") is None


def test_a_client_without_an_id_has_quotas_of_its_user_only():
    """Quotas of any client id do not hold for it."""
    assert table(*range(8)).of_client(KEY, "bob", "") == (6.0, ("bob", ""))
    assert table(6, 7).of_client(KEY, "bob", "") is None


def test_each_kind_of_quota_is_looked_up_by_itself():
    """A user's quota for fetching says nothing about producing."""
    image = QuotasImage()
    image = image.with_record(record_of(entity_of({"user": "alice", "client-id": "etl"}), "consumer_byte_rate", 1.0))
    image = image.with_record(record_of(entity_of({"client-id": None}), KEY, 2.0))
    found = QuotaTable(image)
    assert found.of_client(KEY, "alice", "etl") == (2.0, ("", "etl"))
    assert found.of_client("consumer_byte_rate", "alice", "etl") == (1.0, ("alice", "etl"))


def test_addresses_have_quotas_of_their_own():
    """An address, or any address; they are no quotas of clients."""
    image = QuotasImage().with_record(record_of(entity_of({"ip": "10.0.0.1"}), "connection_creation_rate", 5.0))
    assert QuotaTable(image).of_address("10.0.0.2") is None
    image = image.with_record(record_of(entity_of({"ip": None}), "connection_creation_rate", 9.0))
    found = QuotaTable(image)
    assert (found.of_address("10.0.0.1"), found.of_address("10.0.0.2")) == (5.0, 9.0)
    assert (found.clients, found.addresses) == (False, True)
    assert found.of_client("connection_creation_rate", "u", "c") is None


def test_without_quotas_no_client_is_limited():
    """The table that a broker begins with."""
    assert (NO_QUOTAS.clients, NO_QUOTAS.addresses) == (False, False)
    assert NO_QUOTAS.of_client(KEY, "alice", "etl") is None
    assert NO_QUOTAS.of_address("10.0.0.1") is None
