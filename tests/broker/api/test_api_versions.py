"""ApiVersions: the table as it is, in a form that every client can read."""

import pytest

from stratalog.broker.api import BROKER_APIS
from stratalog.client.link import BrokerUnavailable
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import decode_response_header, encode_request
from stratalog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from stratalog.wire.messages.registry import APIS as MESSAGES
from stratalog.wire.schema import decode

SERVED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7),
    20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2),
    28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5),
    36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0),
    48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0),
    64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
}  # fmt: skip


def asked(name="tester", version="1.0"):
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


def ask(link, version, request=None):
    """One answer, whose header never has tags."""
    link.send(asked() if request is None else request, version)
    frame = link.receive_frame()
    _, position = decode_response_header(frame, flexible=False)
    return frame, position


@pytest.mark.parametrize("version", range(5))
def test_the_ranges_of_kafka_4_3_in_every_version(broker, version):
    """The announced ranges are those that the table serves, with Produce announced from 0."""
    frame, position = ask(broker.link(), version)
    answer = decode(ApiVersionsResponse, version, frame, position)
    assert answer.error_code == 0
    assert {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys} == SERVED


def test_every_row_has_declared_messages(broker):
    """Each served version lies in what the declared messages know."""
    for api in BROKER_APIS:
        assert MESSAGES[api.key].request is api.request
        assert api.request.versions[0] <= api.versions[0] <= api.versions[1] <= api.request.versions[1]
        assert api.response.versions[0] <= api.versions[0] <= api.versions[1] <= api.response.versions[1]


@pytest.mark.parametrize("version", [5, 9, 32767])
def test_an_unknown_version_is_answered_in_version_zero(broker, version):
    """Error 35 and the one range that helps; the connection stays (KIP-511)."""
    link = broker.link()
    link.send_raw(b"\x00\x00\x00\x0a\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff")
    frame = link.receive_frame()
    answer = decode(ApiVersionsResponse, 0, frame, 4)
    assert bytes(frame[:4]) == b"\x00\x00\x00\x07"
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]
    assert link.api_ranges() == SERVED


@pytest.mark.parametrize("names", [("", "1"), ("-a", "1"), ("a", "1 2"), ("a.", "1"), ("ü", "1")])
def test_a_client_that_names_itself_badly_is_refused(broker, names):
    """INVALID_REQUEST from version 3 on; older versions do not say who they are."""
    link = broker.link()
    frame, position = ask(link, 3, asked(*names))
    assert decode(ApiVersionsResponse, 3, frame, position).error_code == ErrorCode.INVALID_REQUEST
    frame, position = ask(link, 2, asked(*names))
    assert decode(ApiVersionsResponse, 2, frame, position).error_code == 0


def test_features_at_level_zero_are_listed_from_version_four_on(broker):
    """Older clients take a range that begins at 0 for an error (KAFKA-17011)."""
    found = {}
    for version in (3, 4):
        frame, position = ask(broker.link(), version)
        answer = decode(ApiVersionsResponse, version, frame, position)
        found[version] = {one.name: one.min_version for one in answer.supported_features}
        assert {one.name for one in answer.finalized_features} >= {"metadata.version"}
        assert answer.finalized_features_epoch >= 0
    assert all(minimum > 0 for minimum in found[3].values())
    assert set(found[3]) < set(found[4])


@pytest.mark.parametrize("key", sorted(MESSAGES.keys() - SERVED.keys()))
def test_a_key_that_is_declared_and_not_served_closes_the_connection(broker, key):
    """The messages of the control plane are for the links between nodes: a client gets what an unknown key gets."""
    for asked_key in (key, 999):
        link = broker.link()
        request = MESSAGES[key].request
        link.send_raw(b"".join(encode_request(asked_key, request.versions[1], 7, "x", [bytes(40)], flexible=True)))
        with pytest.raises(BrokerUnavailable, match=r"closed the connection|reset"):
            link.receive_frame()
