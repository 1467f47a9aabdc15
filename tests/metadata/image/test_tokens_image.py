"""Delegation tokens in the image: kept for the controllers that give them out."""

from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.same_image import same_everywhere
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, read_snapshot
from stratalog.wire.records.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=12)


def put(token_id, expires_ms=5):
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:b",
        renewers=["User:c", "User:d"],
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=expires_ms,
        token_id=token_id,
    )


@given(STEPS)
def test_the_image_is_what_the_records_left(steps):
    """Tokens are set, renewed and removed as a plain dictionary says, and are the same after a snapshot."""
    model, image = {}, EMPTY_IMAGE
    for token_id, expires_ms in steps:
        if expires_ms is None:
            model.pop(token_id, None)
            image = image.apply([RemoveDelegationTokenRecord(token_id=token_id)])
        else:
            model[token_id] = put(token_id, expires_ms)
            image = image.apply([model[token_id]])
    for each in (image, read_snapshot(b"".join(build_snapshot(image)), SnapshotId(0, 0))):
        assert {record.token_id: record for record in each.tokens.to_records()} == model


def test_a_token_makes_another_image():
    """A decision that rests on the whole image is made again when a token comes or goes."""
    image = EMPTY_IMAGE.apply([put("a")])
    assert not same_everywhere(EMPTY_IMAGE, image)
    assert not same_everywhere(image, image.apply([RemoveDelegationTokenRecord(token_id="a")]))
    assert same_everywhere(image, image.apply([RemoveDelegationTokenRecord(token_id="b")]))


def test_a_change_costs_the_same_among_many(copied_items):
    """A token more, renewed or removed: what the images have in common is not copied."""
    image = EMPTY_IMAGE.apply([put(f"t{number}") for number in range(2_000)])
    before = image.tokens.by_id
    for record in (put("new"), put("t7", 6), RemoveDelegationTokenRecord(token_id="t7")):
        after = image.apply([record]).tokens.by_id
        assert copied_items(before, after) <= copied_items.a_change_max
