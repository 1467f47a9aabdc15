"""SCRAM credentials in the image."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.scram_image import ScramCredential
from stratalog.metadata.image.snapshot import SnapshotId, build_snapshot, read_snapshot
from stratalog.wire.errors import Corrupt
from stratalog.wire.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord

STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2]), st.none() | st.binary(max_size=4)), max_size=12
)


def put(user, mechanism, salt=b"s"):
    return UserScramCredentialRecord(
        name=user, mechanism=mechanism, salt=salt, stored_key=b"k", server_key=b"v", iterations=4096
    )


@given(STEPS)
def test_the_image_is_what_the_records_left(steps):
    """As a plain dictionary says, and again after a snapshot."""
    model, image = {}, EMPTY_IMAGE
    for user, mechanism, salt in steps:
        if salt is not None:
            model[user, mechanism] = salt
            image = image.apply([put(user, mechanism, salt)])
        elif model.pop((user, mechanism), None) is not None:
            image = image.apply([RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)])
    for each in (image, read_snapshot(b"".join(build_snapshot(image)), SnapshotId(0, 0))):
        found = {
            (user, mechanism): credential.salt
            for user, credentials in each.scram.by_user.items()
            for mechanism, credential in credentials.items()
        }
        assert found == model
        assert all(each.scram.by_user.values())


def test_a_missing_entry_cannot_be_removed():
    """Such a record belongs to another log."""
    with pytest.raises(Corrupt):
        EMPTY_IMAGE.apply([put("a", 1), RemoveUserScramCredentialRecord(name="a", mechanism=2)])


def test_a_credential_does_not_show_itself():
    """The text that logs and tracebacks print holds neither salt nor key."""
    assert "salt" not in repr(ScramCredential(b"salt", b"stored", b"server", 4096))
    assert "stored" not in repr({"a": ScramCredential(b"salt", b"stored", b"server", 4096)})


@pytest.mark.parametrize(
    "record", [put("u7", 1, b"t"), put("new", 1), RemoveUserScramCredentialRecord(name="u7", mechanism=1)]
)
def test_a_change_costs_the_same_among_many(record, copied_items):
    """A credential more, changed or removed: what the images have in common is not copied."""
    image = EMPTY_IMAGE.apply([put(f"u{number}", 1) for number in range(5_000)])
    before, after = image.scram.by_user, image.apply([record]).scram.by_user
    assert len(before) == 5_000
    assert copied_items(before, after) <= copied_items.a_change_max
    assert len(after) in {4_999, 5_000, 5_001}
