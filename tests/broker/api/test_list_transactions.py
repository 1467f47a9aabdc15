"""ListTransactions against a running broker."""

from types import SimpleNamespace

from stratalog.broker.api import list_transactions
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from tests.broker.api.at_once import PlainRows, pauses


def names(transactions, version=2, states=(), producer_ids=(), **filters):
    """The ids that pass, and the states that do not exist."""
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids), **filters)
    answer = transactions.call(request, version)
    assert answer.error_code == 0
    return sorted(one.transactional_id for one in answer.transaction_states), answer.unknown_state_filters


def test_transactions_are_filtered_by_state_producer_duration_and_pattern(transactions):
    """By state, producer, duration, and a pattern of the whole id; over all partitions of the coordinator."""
    producers = {name: transactions.producer(name) for name in ("a1", "a2", "b1")}
    transactions.produce(producers["a2"], 0, transactional_id="a2")
    for version in range(3):
        assert names(transactions, version) == (["a1", "a2", "b1"], [])
    assert names(transactions, states=["Ongoing", "Nonsense"]) == (["a2"], ["Nonsense"])
    assert names(transactions, producer_ids=[producers["b1"].producer_id]) == (["b1"], [])
    assert names(transactions, duration_filter=3_600_000, states=["Ongoing"]) == ([], [])
    assert names(transactions, transactional_id_pattern="a.*") == (["a1", "a2"], [])
    assert names(transactions, transactional_id_pattern="a") == ([], [])


def test_a_pattern_that_is_none_is_refused(transactions):
    """INVALID_REGULAR_EXPRESSION (KIP-1152)."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="(")
    assert transactions.call(request, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_very_many_transactions_are_listed_in_slices():
    """50,000 took 200 ms at once. A shard that left meanwhile is listed elsewhere."""
    states = [
        TransactionState(transactional_id=f"x{number}", producer_id=number, transaction_state="Empty")
        for number in range(100)
    ]

    def ask(event):
        event.token.respond(ListTransactionsResponse(transaction_states=states))

    drivers = [SimpleNamespace(partition_number=number, ask=ask) for number in range(3)]
    led = [drivers, *[[drivers[0], drivers[2]]] * 3]
    served = SimpleNamespace(drivers=lambda: led.pop(0), loading=False)
    context = SimpleNamespace(
        allows=lambda name: name != "x7",
        rows=lambda _name: PlainRows(),
        broker=SimpleNamespace(transactions=served),
    )
    request = ListTransactionsRequest(state_filters=["Empty", "None"], producer_id_filters=[])
    paused, answer = pauses(list_transactions._steps(context, request))
    assert (paused >= 400 - 2, len(answer.transaction_states), answer.unknown_state_filters) == (True, 198, ["None"])


def test_a_shard_that_is_led_anew_meanwhile_is_listed():
    """Its driver is another one. Its transactions were left out, although they were coordinated here all the time."""

    def driver(number, name):
        def ask(event):
            state = TransactionState(transactional_id=name, producer_id=1, transaction_state="Empty")
            event.token.respond(ListTransactionsResponse(transaction_states=[state]))

        return SimpleNamespace(partition_number=number, ask=ask)

    led = [driver(0, "a"), driver(1, "b"), driver(2, "c")]
    served = SimpleNamespace(drivers=lambda: led, loading=False)
    context = SimpleNamespace(
        allows=lambda _name: True, rows=lambda _name: PlainRows(), broker=SimpleNamespace(transactions=served)
    )
    steps = list_transactions._steps(context, ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    next(steps)
    led[1:] = [driver(1, "d")]
    _, answer = pauses(steps)
    assert [one.transactional_id for one in answer.transaction_states] == ["a", "d"]
