"""Quotas as an image, and as records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.quotas_image import QuotasImage, entity_of, record_of
from stratalog.metadata.image.snapshot import image_records
from stratalog.wire.errors import Corrupt

NAMES = st.none() | st.sampled_from(["a", "b"])
ENTITIES = st.one_of(
    st.builds(lambda user, client: {"user": user, "client-id": client}, NAMES, NAMES),
    st.builds(lambda user: {"user": user}, NAMES),
    st.builds(lambda address: {"ip": address}, st.none() | st.just("10.0.0.1")),
).map(entity_of)
CHANGES = st.lists(
    st.tuples(ENTITIES, st.sampled_from(["producer_byte_rate", "request_percentage"]), st.none() | st.floats(1, 9)),
    max_size=20,
)


@given(CHANGES)
def test_an_image_is_what_its_records_say(changes):
    """Beside a dict of dicts, after every change; and written out and read again it is equal."""
    image, model = EMPTY_IMAGE, {}
    for entity, key, value in changes:
        record = record_of(entity, key, value)
        if value is None and key not in model.get(entity, {}):
            with pytest.raises(Corrupt):
                image.apply([record])
            continue
        image = image.apply([record])
        if value is None:
            del model[entity][key]
            if not model[entity]:
                del model[entity]
        else:
            model.setdefault(entity, {})[key] = value
        assert {one: dict(quotas) for one, quotas in image.quotas.by_entity.items()} == model
    assert EMPTY_IMAGE.apply(image_records(image)) == image


def test_an_entity_does_not_depend_on_the_order_of_its_parts():
    """User and client id, client id and user."""
    assert entity_of({"user": "a", "client-id": None}) == entity_of({"client-id": None, "user": "a"})
    assert QuotasImage().of(entity_of({"user": "a"})) == {}


@pytest.mark.parametrize("value", [2.0, None])
def test_a_change_costs_the_same_among_many(value, copied_items):
    """A quota more, changed or removed: what the images have in common is not copied."""
    records = [record_of(entity_of({"user": f"u{number}"}), "producer_byte_rate", 1.0) for number in range(5_000)]
    image = EMPTY_IMAGE.apply(records)
    before = image.quotas.by_entity
    assert len(before) == 5_000
    after = image.apply([record_of(entity_of({"user": "u7"}), "producer_byte_rate", value)]).quotas.by_entity
    assert copied_items(before, after) <= copied_items.a_change_max
    assert len(after) == 5_000 - (value is None)
