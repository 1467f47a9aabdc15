"""AlterClientQuotas: what each version of the messages carries."""

from stratalog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
    EntityData,
    EntryData,
    OpData,
)
from stratalog.wire.schema import encode_bytes

ENTITY = [EntityData(entity_type="u", entity_name="a")]


def test_request_versions():
    """Quotas to set and to remove, entity by entity."""
    ops = [OpData(key="k", value=1.5, remove=False), OpData(key="l", value=0.0, remove=True)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=ENTITY, ops=ops)], validate_only=True)
    old = "00000001 00000001 0001 75 0001 61 00000002 0001 6b 3ff8000000000000 00 0001 6c 0000000000000000 01 01"
    assert encode_bytes(request, 0) == bytes.fromhex(old)
    compact = "02 02 0275 0261 00 03 026b 3ff8000000000000 00 00 026c 0000000000000000 01 00 00 01 00"
    assert encode_bytes(request, 1) == bytes.fromhex(compact)


def test_response_versions():
    """A code and a message for each entity."""
    response = AlterClientQuotasResponse(entries=[AlteredEntryData(error_code=42, error_message="no", entity=ENTITY)])
    old = "00000000 00000001 002a 0002 6e6f 00000001 0001 75 0001 61"
    assert encode_bytes(response, 0) == bytes.fromhex(old)
    assert encode_bytes(response, 1) == bytes.fromhex("00000000 02 002a 036e6f 02 0275 0261 00 00 00")
