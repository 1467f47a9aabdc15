"""Records about users: their bytes, as Kafka writes them."""

import pytest

from stratalog.wire.records.access import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from stratalog.wire.records.metadata import decode_record, encode_record

TOKEN = DelegationTokenRecord(
    owner="User:a",
    requester="User:b",
    renewers=["User:c"],
    issue_timestamp=1,
    max_timestamp=3,
    expiration_timestamp=2,
    token_id="id",
)

GOLDEN = [
    # owner, requester, renewers; issued, not renewed after, expires; id
    (
        TOKEN,
        (
            "01 0a 00 07557365723a61 07557365723a62 02 07557365723a63 "
            "0000000000000001 0000000000000003 0000000000000002 036964 00"
        ),
    ),
    (RemoveDelegationTokenRecord(token_id="id"), "01 1a 00 036964 00"),
    (
        UserScramCredentialRecord(name="u", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
        "01 0b 00 0275 02 0273 026b 0276 00001000 00",
    ),
    (RemoveUserScramCredentialRecord(name="u", mechanism=2), "01 16 00 0275 02 00"),
]


@pytest.mark.parametrize(("record", "value"), GOLDEN, ids=lambda value: type(value).__name__)
def test_record_bytes(record, value):
    """Records about users stand in the log as Kafka writes them."""
    assert encode_record(record).hex() == value.replace(" ", "")
    assert decode_record(bytes.fromhex(value)) == record
