"""Errors of transactions by version."""

import pytest

from stratalog.metadata.transactions.errors import for_produce, for_version
from stratalog.wire.errors import ErrorCode, KafkaError

FENCED = KafkaError(ErrorCode.PRODUCER_FENCED, "why")
ABORTABLE = KafkaError(ErrorCode.TRANSACTION_ABORTABLE)


@pytest.mark.parametrize(("api_key", "since"), [(22, 4), (24, 2), (25, 2), (26, 2)])
def test_fenced_producers_get_an_error_their_version_knows(api_key, since):
    """PRODUCER_FENCED since KIP-588, INVALID_PRODUCER_EPOCH before."""
    assert for_version(FENCED, api_key, since) is ErrorCode.PRODUCER_FENCED
    assert for_version(FENCED, api_key, since - 1) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("api_key", "since"), [(0, 11), (24, 4), (25, 4), (26, 4), (28, 4)])
def test_abortable_errors_go_to_versions_that_know_them(api_key, since):
    """TRANSACTION_ABORTABLE since KIP-890, INVALID_TXN_STATE before."""
    assert for_version(ABORTABLE, api_key, since) is ErrorCode.TRANSACTION_ABORTABLE
    assert for_version(ABORTABLE, api_key, since - 1) is ErrorCode.INVALID_TXN_STATE


def test_produce_repeats_what_will_pass():
    """A coordinator that is not there yet, or busy, is not the producer's mistake."""
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert for_produce(KafkaError(code), 0, 13).code is ErrorCode.NOT_ENOUGH_REPLICAS
    busy = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert for_produce(busy, 0, 11).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert for_produce(busy, 0, 12) is busy
    assert for_produce(busy, 28, 5) is busy


def test_a_fenced_produce_has_an_old_epoch():
    """In every version, with the same words."""
    error = for_produce(FENCED, 0, 13)
    assert (error.code, error.message) == (ErrorCode.INVALID_PRODUCER_EPOCH, "why")
