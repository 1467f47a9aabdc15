"""Shortcuts where an authorizer rules: a request is refused by them exactly when the long way refuses it."""

import importlib.util
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stratalog.broker.api import fetch, produce
from stratalog.broker.requests.authorizer import Operation, ReadOnly, ResourceType, StandardAuthorizer
from stratalog.broker.shortcuts import produce as produce_shortcut
from stratalog.broker.shortcuts.clearance import Clearance
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.metadata.access.acl_rules import AclRule, PatternType, Permission
from stratalog.metadata.access.acls import AclsImage
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from stratalog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from stratalog.wire.messages.find_coordinator import FindCoordinatorRequest
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from stratalog.wire.schema import decode, encode

VERSION = 12
USUAL, OTHER = "User:ANONYMOUS", "User:b"
TOPIC, TRANSACTION = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
KINDS = {"fetch": fetch.API, "produce": produce.API}


def load_rig():
    """The module beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location("fetch_rig", Path(__file__).with_name("fetch_rig.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIG = load_rig()


class Rules:
    """Rules that a test changes as it likes; without a rule everything is allowed."""

    def __init__(self) -> None:
        self.image = AclsImage()
        self.authorizer = StandardAuthorizer(lambda: self.image, super_users=frozenset(), without_rules=True)

    def set(self, *rules: AclRule) -> None:
        self.image = AclsImage.of({bytes([number]) * 16: one for number, one in enumerate(rules)})


def deny(name="t", operation=Operation.ALL, principal="User:*", kind=TOPIC):
    return AclRule(kind, name, PatternType.LITERAL, principal, "*", operation, Permission.DENY)


def allow(name="t", operation=Operation.ALL, principal="User:*", kind=TOPIC):
    return AclRule(kind, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)


RULES = {
    "free": (),
    "unrelated": (deny("elsewhere"),),
    "closed": (deny(),),
    "the other": (deny(principal=OTHER),),
    "usual alone": (allow(principal=USUAL),),
    "no reading": (allow(), deny(operation=Operation.READ)),
    "no writing": (allow(), deny(operation=Operation.WRITE)),
    "no transactions": (deny("x", kind=TRANSACTION),),
    "no other topic": (deny("u"),),
}


class ProduceFrames:
    """Requests of one batch."""

    def __init__(self, rig) -> None:
        self._rig = rig
        self._correlation_id = 0

    def frame(self, topic="t", transactional_id=None, sequence=-1) -> bytes:
        self._correlation_id += 1
        options = {}
        if transactional_id is not None:
            options = {"producer_id": 8, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        batch = bytes(build_batch([Record(0, self._rig.clock.wall_ms(), None, b"v" * 20)], **options))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=1,
            timeout_ms=500,
            topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])],
        )
        body = b"".join(encode(request, VERSION))
        return b"".join(encode_request(0, VERSION, self._correlation_id, "client", [body], flexible=True))


def act(rig, rules, frames, fetches, step) -> None:
    """One step of a history."""
    kind, detail = step
    if kind == "rules":
        rules.set(*RULES[detail])
    elif kind == "principal":
        rig.connection.principal = detail
    elif kind == "event":
        RIG.EVENTS[detail](rig)
    elif kind == "fetch":
        rig.receive(fetches.frame(RIG.Asked(**detail)))
    else:
        rig.receive(frames.frame(**detail))
    rig.loop.now += 0.001
    rig.loop.run()


def outcome(rig, rules, steps) -> list:
    """Everything that may not depend on the way, after these steps."""
    frames, fetches = ProduceFrames(rig), RIG.FetchFrames(rig)
    waiting = []
    for step in steps:
        act(rig, rules, frames, fetches, step)
        waiting.append(len(rig.broker.purgatory))
    for _ in range(4):
        rig.loop.now += 0.3
        rig.loop.run()
    found = [waiting, *rig.outcome()]
    for one in rig.connections:
        one.connection_lost(None)
    rig.close()
    return found


def steps_of(*requests):
    """Histories of these requests, with changes of the rules and of the principal in between."""
    around = st.one_of(
        st.tuples(st.just("rules"), st.sampled_from(sorted(RULES))),
        st.tuples(st.just("principal"), st.sampled_from([USUAL, OTHER])),
        st.tuples(st.just("event"), st.sampled_from(["append", "append", "time", "connect", "another"])),
    )
    return st.lists(st.one_of(*requests, *requests, around), min_size=4, max_size=25)


FETCHES = st.tuples(
    st.just("fetch"),
    st.fixed_dictionaries(
        {"version": st.sampled_from([12, 16])},
        optional={
            "offset": st.integers(0, 2),
            "min_bytes": st.sampled_from([1, 1000]),
            "session": st.sampled_from(["none", "begin", "next"]),
        },
    ),
)
PRODUCES = st.tuples(
    st.just("produce"),
    st.sampled_from([{}, {}, {"topic": "u"}, *({"transactional_id": "x", "sequence": number} for number in range(3))]),
)


def check_both_ways(broker_rig, api, steps):
    found = []
    for one in (with_shortcuts([api])[0], api):
        rules = Rules()
        with tempfile.TemporaryDirectory() as folder:
            found.append(outcome(broker_rig(Path(folder), one, authorizer=rules.authorizer), rules, steps))
    for short, long in zip(*found, strict=True):
        assert short == long


@pytest.mark.story
@given(steps_of(FETCHES))
@example([("fetch", {"version": 16})] * 2 + [("rules", "unrelated"), ("event", "append")])
@example([("fetch", {"version": 16}), ("event", "append"), ("fetch", {"version": 16}),
          ("rules", "closed"), ("event", "append")])  # fmt: skip
@example([("fetch", {"version": 16, "min_bytes": 1000})] * 2 + [("rules", "unrelated"), ("event", "append")])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fetches_are_refused_alike_by_both_ways(broker_rig, steps):
    """The rules and the principal change at random, also while a fetch waits."""
    check_both_ways(broker_rig, fetch.API, steps)


@pytest.mark.story
@given(steps_of(PRODUCES))
@example([("produce", {"transactional_id": "x", "sequence": 0}), ("produce", {"transactional_id": "x", "sequence": 1}),
          ("rules", "no transactions"), ("produce", {"transactional_id": "x", "sequence": 2})])  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_are_refused_alike_by_both_ways(broker_rig, monkeypatch, steps):
    """The rules, also those about transactional ids, and the principal change at random."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 1)
    check_both_ways(broker_rig, produce.API, steps)


@pytest.fixture
def produce_one(broker_rig, tmp_path, monkeypatch):
    """Sends one batch; whether it was decoded, and the error code."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 1)
    rules = Rules()
    rig = broker_rig(tmp_path, with_shortcuts([produce.API])[0], authorizer=rules.authorizer)
    frames, decoded = ProduceFrames(rig), []
    dispatch = rig.dispatcher.dispatch
    rig.services.dispatch = lambda connection, frame: (decoded.append(1), dispatch(connection, frame))
    rig.connect()

    def run():
        decoded.clear()
        before = len(rig.connection._transport.sent)
        rig.receive(frames.frame())
        rig.loop.run()
        answer = decode(ProduceResponse, VERSION, memoryview(bytes(rig.connection._transport.sent[before:])), 9)
        return bool(decoded), answer.responses[0].partition_responses[0].error_code

    run.rig, run.rules = rig, rules
    yield run
    rig.close()


REFUSED = (True, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_an_allowed_client_takes_the_shortcut_until_a_rule_denies_it(produce_one):
    """The very next request is refused; when the rule is gone, the one after that is short again."""
    assert [produce_one() for _ in range(3)] == [(True, 0), (False, 0), (False, 0)]
    produce_one.rules.set(deny())
    assert [produce_one() for _ in range(2)] == [REFUSED, REFUSED]
    produce_one.rules.set()
    assert produce_one() == (False, 0)


def test_a_change_that_denies_nothing_costs_one_question(produce_one):
    """The authorizer is asked once for each set of rules, not for each request."""
    asked = []
    permitted = StandardAuthorizer.permitted
    rig = produce_one.rig
    produce_one()
    produce_one.rules.set(deny("elsewhere"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StandardAuthorizer, "permitted", lambda *found: asked.append(found) or permitted(*found))
        assert [produce_one() for _ in range(4)] == [(False, 0)] * 4
    assert [found[1:] for found in asked] == [(USUAL, rig.connection.host, TOPIC, "t")]


def test_a_route_serves_neither_another_principal_nor_another_connection(produce_one):
    """Whether the client proves to be another on the same connection, or another comes on one of its own."""
    produce_one.rules.set(allow(principal=USUAL))
    assert [produce_one() for _ in range(2)] == [(True, 0), (False, 0)]
    first = produce_one.rig.connection
    first.authenticate(OTHER)
    assert produce_one() == REFUSED
    produce_one.rig.connect()
    produce_one.rig.connection.authenticate(OTHER)
    assert produce_one() == REFUSED
    assert produce_one.rig.connection.shortcut is None
    produce_one.rig.connection = first
    first.authenticate(USUAL)
    assert produce_one() == (False, 0)


def test_a_refused_request_teaches_nothing(produce_one):
    """A route is made for permitted requests alone."""
    produce_one.rules.set(deny())
    assert [produce_one() for _ in range(3)] == [REFUSED] * 3
    assert produce_one.rig.connection.shortcut is None


def test_versions_follow_the_rules():
    """Also behind an authorizer that lets nothing be changed."""
    rules = Rules()
    guards = (rules.authorizer, ReadOnly(rules.authorizer))
    seen = []
    for chosen in ("free", "closed", "free"):
        rules.set(*RULES[chosen])
        versions = {guard.version for guard in guards for _ in range(2)}
        assert len(versions) == 1
        seen += versions
    assert seen == sorted(set(seen))


def test_clearance_is_not_needed_where_no_authorizer_rules(broker_rig, tmp_path):
    """None stands for it, and nothing is looked up per request."""
    rig = broker_rig(tmp_path, produce.API)
    context = type("Context", (), {"dispatcher": rig.dispatcher, "connection": rig.connection})()
    assert Clearance.of(context, (Operation.READ, TOPIC, "t")) is None
    rig.close()


def test_heartbeats_of_a_member_whose_group_is_denied(start_node):
    """A remembered heartbeat is refused as soon as a rule denies the group, and short again when the rule is gone."""
    node = start_node(
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "group.consumer.assignment.interval.ms": "0",
        }
    )
    node.create("t")
    link = node.link()
    link.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    node.wait_until(lambda: not node.node.groups.loading)
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    joined = link.call(ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=0, **joining), 1)
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=joined.member_epoch)

    def shortcuts():
        return [one.shortcut for one in node.node.server.connections if one.shortcut is not None]

    assert [link.call(beat, 1).error_code for _ in range(2)] == [0, 0]
    (shortcut,) = node.run(shortcuts)
    kind = {"resource_type": ResourceType.GROUP, "operation": Operation.READ, "permission_type": Permission.DENY}
    rule = AclCreation(resource_name="g", principal="User:*", host="*", **kind)
    other = node.link()
    assert other.call(CreateAclsRequest(creations=[rule]), 3).results[0].error_code == 0
    assert link.call(beat, 1).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    every = DeleteAclsFilter(
        resource_type_filter=ResourceType.GROUP, pattern_type_filter=PatternType.LITERAL, operation=Operation.READ,
        resource_name_filter="g", principal_filter=None, host_filter=None, permission_type=Permission.DENY,
    )  # fmt: skip
    assert other.call(DeleteAclsRequest(filters=[every]), 3).filter_results[0].error_code == 0
    assert link.call(beat, 1).error_code == 0
    assert node.run(shortcuts) == [shortcut]
