"""Which brokers are asked whether they still listen, and when they count as gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.metadata.controller.broker_probes import (
    AGAIN_MS,
    LISTENS_MS,
    REFUSALS_MIN,
    BrokerProbes,
    Gone,
    Look,
    Probe,
    Probed,
)
from stratalog.metadata.image.brokers_image import BrokerImage

CONNECT_MS = 2000


def broker(broker_id=1, epoch=10, **fields):
    """An active one."""
    values = {"incarnation_id": bytes(16), "listeners": {}, "features": {}, "rack": None, "directories": ()}
    return BrokerImage(broker_id=broker_id, epoch=epoch, **{**values, "is_fenced": False, **fields})


@pytest.fixture
def probes():
    """Those of a controller that has been active for long."""
    probes = BrokerProbes(CONNECT_MS)
    probes.take_over(-CONNECT_MS)
    return probes


def test_a_broker_with_a_connection_is_not_asked(probes):
    """Its session says enough."""
    assert probes.step(Look([broker()], {1}), 0) == ()
    assert not probes.is_absent(1, 10, 0)


def test_a_broker_whose_connection_ended_is_gone_after_two_refusals(probes):
    """The second one comes a little later."""
    (first,) = probes.step(Look([broker()], ()), 0)
    assert probes.is_absent(1, 10, 0)
    assert probes.step(Probed(first, is_refused=True), 5) == ()
    assert probes.step(Look([broker()], ()), 5 + AGAIN_MS - 1) == ()
    (second,) = probes.step(Look([broker()], ()), 5 + AGAIN_MS)
    assert probes.step(Probed(second, is_refused=True), 200) == (Gone(1, 10),)


def test_one_probe_of_a_broker_is_under_way_at_a_time(probes):
    """A host may answer late."""
    (first,) = probes.step(Look([broker()], ()), 0)
    assert probes.step(Look([broker()], ()), 100_000) == ()
    assert probes.step(Probed(first, is_refused=False), 100_000) == ()
    assert probes.step(Look([broker()], ()), 100_000 + LISTENS_MS - 1) == ()
    assert len(probes.step(Look([broker()], ()), 100_000 + LISTENS_MS)) == 1


def test_an_answer_that_is_no_refusal_begins_the_count_anew(probes):
    """One refusal alone may come from a process that was just starting."""
    now_ms = 0
    for is_refused in (True, False, True):
        (probe,) = probes.step(Look([broker()], ()), now_ms)
        assert probes.step(Probed(probe, is_refused), now_ms) == ()
        now_ms += LISTENS_MS
    (probe,) = probes.step(Look([broker()], ()), now_ms)
    assert probes.step(Probed(probe, is_refused=True), now_ms) == (Gone(1, 10),)


def test_a_heartbeat_in_between_makes_a_refusal_of_before_count_nothing(probes):
    """The probe was on its way when the broker connected, and lost its connection again."""
    (first,) = probes.step(Look([broker()], ()), 0)
    probes.step(Probed(first, is_refused=True), 0)
    (late,) = probes.step(Look([broker()], ()), AGAIN_MS)
    probes.step(Look([broker()], {1}), AGAIN_MS + 1)
    (fresh,) = probes.step(Look([broker()], ()), AGAIN_MS + 2)
    assert probes.step(Probed(late, is_refused=True), AGAIN_MS + 3) == ()
    assert probes.step(Probed(fresh, is_refused=True), AGAIN_MS + 3) == ()


def test_another_incarnation_is_counted_by_itself(probes):
    """The refusals were those of the process before."""
    (first,) = probes.step(Look([broker()], ()), 0)
    probes.step(Probed(first, is_refused=True), 0)
    (second,) = probes.step(Look([broker(epoch=11)], ()), AGAIN_MS)
    assert second.broker_epoch == 11
    assert not probes.is_absent(1, 10, AGAIN_MS)
    assert probes.step(Probed(second, is_refused=True), AGAIN_MS) == ()


@pytest.mark.parametrize("fields", [{"is_fenced": True}])
def test_a_fenced_broker_is_not_asked(probes, fields):
    """It leads nothing: there is no hurry."""
    assert probes.step(Look([broker(**fields)], ()), 0) == ()
    assert not probes.is_absent(1, 10, 0)


def test_a_broker_in_controlled_shutdown_is_asked(probes):
    """It may be killed while it stops."""
    assert len(probes.step(Look([replace(broker(), in_controlled_shutdown=True)], ()), 0)) == 1


def test_a_new_controller_first_leaves_brokers_the_time_to_connect():
    """Those that have connected and lost the connection again wait as well."""
    probes = BrokerProbes(CONNECT_MS)
    probes.take_over(1000)
    assert probes.step(Look([broker()], ()), 1000) == ()
    assert probes.step(Look([broker()], ()), 1000 + CONNECT_MS - 1) == ()
    assert not probes.is_absent(1, 10, 1000 + CONNECT_MS - 1)
    assert len(probes.step(Look([broker()], ()), 1000 + CONNECT_MS)) == 1
    assert probes.is_absent(1, 10, 1000 + CONNECT_MS)


@given(
    st.lists(
        st.tuples(st.integers(1, 1500), st.sampled_from(["connects", "leaves", "refused", "listens", "looks"])),
        max_size=60,
    )
)
def test_a_broker_is_gone_only_after_refusals_in_a_row_while_it_had_no_connection(events):
    """Connections, outcomes and looks come in any order."""
    probes, now_ms, connected, pending, refusals = BrokerProbes(CONNECT_MS), 0, False, None, 0
    probes.take_over(0)
    for passed_ms, event in events:
        now_ms += passed_ms
        if event in {"connects", "leaves"}:
            connected = event == "connects"
        if connected:
            refusals = 0
        if event in {"refused", "listens"} and pending is not None:
            refusals = refusals + 1 if event == "refused" and not connected else 0
            found, pending = probes.step(Probed(pending, event == "refused"), now_ms), None
            if found:
                assert found == (Gone(1, 10),)
                assert refusals >= REFUSALS_MIN
                assert now_ms >= CONNECT_MS
                refusals = 0
        for probe in probes.step(Look([broker()], {1} if connected else ()), now_ms):
            assert isinstance(probe, Probe)
            assert not connected
            pending = probe
