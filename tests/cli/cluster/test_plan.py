"""The plan of a rebalance as people and programs read it."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from stratalog.cli.cluster.plan import Plan, make_plan, plan_document, write_plan
from stratalog.client.cluster import Broker, Cluster
from stratalog.client.reassignments import Reassignment
from stratalog.metadata.balancing.moves import Move
from stratalog.wire.topic import TopicPartition

MIB = 1 << 20


def one(number):
    return TopicPartition("t", number)


@pytest.fixture
def plan():
    """Broker 3 leaves, 4 is fenced, 9 is registered no more; t-1 is tiered, t-2 only gets another order."""
    return Plan(
        moves=(
            Move(one(0), (1, 3), (1, 2), 1, 10 * MIB),
            Move(one(1), (3, 9), (2, 1), 3, 2 * MIB, 500 * MIB),
            Move(one(2), (1, 2), (2, 1), 1, 7 * MIB),
        ),
        brokers=tuple(Broker(number, "h", 9092, "ab"[number % 2], number == 4) for number in (1, 2, 3, 4)),
        leaving=frozenset({3, 9}),
        present={one(0): (1, 3), one(1): (3, 9), one(2): (1, 2), one(3): (4, 1)},
        leaders={one(0): 1, one(1): 3, one(2): 1, one(3): 4},
        unknown=frozenset({one(1)}),
        running={one(3): Reassignment((4, 1, 2), (1,), (2,))},
    )


def test_the_document_has_bytes_time_and_brokers_before_and_after(plan):
    """Bytes of new copies only; a broker that is not registered has no rack."""
    said = json.loads(json.dumps(plan_document(plan, 2 * MIB)))
    assert (said["partitions"], said["replicas"]) == (3, 3)
    assert said["bytes_from_peers"] == 14 * MIB
    assert said["bytes_that_stay_in_bucket"] == 1000 * MIB
    assert (said["busiest_broker_bytes"], said["seconds"]) == (12 * MIB, 6.0)
    assert (said["running_before"], said["unknown_sizes"]) == (1, ["t-1"])
    rows = {row["broker"]: row for row in said["brokers"]}
    assert [(row["state"], row["replicas"], row["replicas_after"]) for row in rows.values()] == [
        ("active", 3, 4), ("active", 1, 3), ("leaving", 2, 0), ("fenced", 1, 1), ("absent", 1, 0),
    ]  # fmt: skip
    assert [(row["leads"], row["leads_after"]) for row in rows.values()] == [(2, 1), (0, 2), (1, 0), (1, 1), (0, 0)]
    assert (rows[2]["receives"], rows[1]["sends"], rows[9]["rack"]) == (12 * MIB, 10 * MIB, None)
    assert said["moves"][1]["target"] == [2, 1]
    assert plan_document(plan, None)["seconds"] is None


def test_the_text_names_the_first_moves(plan, capsys):
    """And what is not known goes to stderr."""
    write_plan(plan, 2 * MIB)
    out, err = capsys.readouterr()
    assert "from peers: 14.0 MiB  stays in the bucket: 1000.0 MiB" in out
    assert "at 2.0 MiB a second: at least 6.0 s" in out
    assert "  t-0  1,3 -> 1,2  10.0 MiB each\n" in out
    assert "  t-2  1,2 -> 2,1  another order, nothing is copied\n" in out
    assert re.match(r"The leaders of 1 partitions that move told no size, which counts as 0: t-1\.", err)


def test_a_plan_without_moves_and_one_with_many(plan, capsys):
    """The table of brokers is shown all the same; of many moves the first."""
    write_plan(Plan((), plan.brokers, frozenset(), plan.present, plan.leaders, frozenset(), {}), None)
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to move"
    many = tuple(Move(one(number), (1,), (2,), 1, 1) for number in range(50))
    write_plan(Plan(many, plan.brokers, frozenset(), plan.present, plan.leaders, frozenset(), {}), None)
    assert capsys.readouterr().out.splitlines()[-1] == "  and 30 more; --json lists them"


@pytest.mark.parametrize(
    ("replicas", "later", "end"),
    [((2, 3, 1), {}, (2, 3)), ((2, 3), {}, (2, 3)), ((2, 3, 1), {one(0): Reassignment((2, 4, 1), (4,), (1,))}, (2, 4))],
    ids=["told before its end", "told behind its end", "on its way elsewhere"],
)
def test_a_move_that_ends_while_the_plan_is_made_leaves_the_replication_factor_as_it_is(
    monkeypatch, replicas, later, end
):
    """Metadata may have the replicas of both its ends when the list of moves has it no more."""
    lists = iter([{one(0): Reassignment((2, 3, 1), (3,), (1,))}, later])
    cluster = Cluster("c", 1, tuple(Broker(number, "h", 9092, None, False) for number in (1, 2, 3, 4)), True)
    part = SimpleNamespace(partition=0, replicas=replicas, leader=2)
    client = SimpleNamespace(refresh=lambda: [SimpleNamespace(name="t", partitions=[part])])
    monkeypatch.setattr(f"{make_plan.__module__}.list_reassignments", lambda _client: next(lists))
    monkeypatch.setattr(f"{make_plan.__module__}.describe_cluster", lambda _client: cluster)
    monkeypatch.setattr(f"{make_plan.__module__}.copy_sizes", lambda *_: ({}, frozenset()))
    plan = make_plan(client, leaving=(), only=None, spread=False, sleep=lambda _: None)
    assert plan.present == {one(0): end}


def test_a_broker_that_follows_the_controller_late_is_looked_at_again(monkeypatch):
    """The list of moves has one no more that its Metadata still show: three replicas are none that are wanted."""
    looks = iter([(2, 3, 1), (2, 3), (2, 3)])
    cluster = Cluster("c", 1, tuple(Broker(number, "h", 9092, None, False) for number in (1, 2, 3)), True)

    def refresh():
        part = SimpleNamespace(partition=0, replicas=next(looks), leader=2)
        return [SimpleNamespace(name="t", partitions=[part])]

    monkeypatch.setattr(f"{make_plan.__module__}.list_reassignments", lambda _client: {})
    monkeypatch.setattr(f"{make_plan.__module__}.describe_cluster", lambda _client: cluster)
    monkeypatch.setattr(f"{make_plan.__module__}.copy_sizes", lambda *_: ({}, frozenset()))
    client = SimpleNamespace(refresh=refresh)
    plan = make_plan(client, leaving=(), only=None, spread=False, sleep=lambda _: None)
    assert plan.present == {one(0): (2, 3)}
