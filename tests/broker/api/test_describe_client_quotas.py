"""DescribeClientQuotas: the quotas that a filter finds, and filters that are refused."""

from types import SimpleNamespace

import pytest

from stratalog.broker.api import describe_client_quotas
from stratalog.metadata.image.quotas_image import entity_of, record_of
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.broker.api.at_once import PlainRows, pauses

QUOTAS = [
    ({"user": "alice"}, "producer_byte_rate", 100.0),
    ({"user": "alice"}, "request_percentage", 2.5),
    ({"user": None, "client-id": "etl"}, "consumer_byte_rate", 7.0),
    ({"ip": "10.0.0.1"}, "connection_creation_rate", 3.0),
]


@pytest.fixture
def described(shared_broker):
    """Ask a broker with a few quotas: ``described(component, ..., strict=, version=)``."""
    if not shared_broker.node.image.quotas.by_entity:
        records = tuple(record_of(entity_of(names), key, value) for names, key, value in QUOTAS)
        shared_broker.run(lambda: shared_broker.node.control.write(records))

    def ask(*components, strict=False, version=1):
        wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
        request = DescribeClientQuotasRequest(components=wanted, strict=strict)
        return shared_broker.link().call(request, version)

    return ask


def found(answer):
    """Names by type, and quotas by key, of every entry."""
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        ({part.entity_type: part.entity_name for part in one.entity}, {each.key: each.value for each in one.values})
        for one in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_without_a_filter_everything_is_answered(described, version):
    """Every entity with all its quotas, in every version."""
    assert found(described(version=version)) == [
        ({"user": "alice"}, {"producer_byte_rate": 100.0, "request_percentage": 2.5}),
        ({"user": None, "client-id": "etl"}, {"consumer_byte_rate": 7.0}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
    ]


def test_filters_by_name_by_default_and_by_type(described):
    """A strict one leaves out entities with further types."""
    names = [names for names, _ in found(described(("user", 0, "alice")))]
    assert names == [{"user": "alice"}]
    assert found(described(("user", 1, None)))[0][0] == {"user": None, "client-id": "etl"}
    assert found(described(("user", 1, None), strict=True)) == []
    assert len(found(described(("user", 2, None)))) == 2
    assert len(found(described(("ip", 2, None), strict=True))) == 1


def test_a_filter_that_means_nothing_is_refused(described):
    """The whole answer is the error, and why."""
    answer = described(("user", 9, None))
    assert (answer.error_code, answer.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert "match type 9" in answer.error_message
    assert described(("group", 2, None)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_very_many_quotas_are_described_in_slices():
    """Also those that are not found: 20,000 took 250 ms at once."""
    by_entity = {entity_of({"user": f"u{number}"}): {"producer_byte_rate": 1.0} for number in range(100)}
    image = SimpleNamespace(quotas=SimpleNamespace(by_entity=by_entity))
    context = SimpleNamespace(broker=SimpleNamespace(image=image), rows=lambda _name: PlainRows())
    for name, count in ((None, 100), ("u7", 1)):
        wanted = [] if name is None else [ComponentData(entity_type="user", match_type=0, match=name)]
        steps = describe_client_quotas._steps(context, DescribeClientQuotasRequest(components=wanted, strict=False))
        paused, answer = pauses(steps)
        assert (paused, len(answer.entries)) == (100, count)
