"""The queue of partitions that will be opened."""

import random

import pytest

from stratalog.broker.replicas.due_partitions import DuePartitions

IDS = {name: name.encode() * 16 for name in "abcd"}


@pytest.fixture
def due():
    due = DuePartitions()
    for name in "ab":
        for number in range(3):
            due.add(name, IDS[name], number)
    return due


def taken(due):
    return [(one.topic_id[:1].decode(), one.number) for one in iter(due.take, None)]


def test_they_come_in_the_order_in_which_they_were_put(due):
    """Each once, however often it was put."""
    due.add("a", IDS["a"], 1)
    assert len(due) == len(list(due)) == 6
    assert taken(due) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    assert not due


def test_one_that_is_asked_for_is_next(due):
    """By name or by id; those who ask for another one hear that it does not wait."""
    assert due.ask("b", 2)
    assert due.ask_by_id(IDS["b"], 1)
    assert not due.ask("b", 3)
    assert not due.ask("c", 0)
    assert not due.ask_by_id(IDS["c"], 0)
    assert taken(due)[:3] == [("b", 2), ("b", 1), ("a", 0)]


def test_partitions_of_coordinators_are_next(due):
    """All groups wait for them."""
    due.add("__consumer_offsets", IDS["c"], 7)
    assert due.take() == (IDS["c"], 7)


def test_an_open_or_deleted_partition_does_not_come(due):
    """Also if it was asked for; a topic of the same name with another id takes the place of the former."""
    due.ask("a", 1)
    due.discard("a", 1)
    due.discard("c", 0)
    due.ask("b", 0)
    due.forget("b", IDS["d"])
    assert due.holds("b", 0), "a former topic of this name was deleted"
    due.forget("b", IDS["b"])
    due.forget("c", IDS["c"])
    assert [due.holds(*one) for one in (("a", 0), ("a", 1), ("b", 0))] == [True, False, False]
    due.add("a", IDS["d"], 5)
    assert list(due) == [(IDS["d"], 5)]
    due.clear()
    assert taken(due) == []


def test_random_changes_agree_with_a_list():
    """Counts, members and the order stay right over any changes."""
    dice = random.Random(1)
    due, model, asked = DuePartitions(), {}, {}
    for _ in range(3000):
        name, number = dice.choice("abcd"), dice.randrange(4)
        key = (IDS[name], number)
        match dice.randrange(5):
            case 0 | 1:
                due.add(name, IDS[name], number)
                model[key] = None
            case 2:
                due.discard(name, number)
                model.pop(key, None)
                asked.pop(key, None)
            case 3:
                assert due.ask(name, number) is (key in model)
                if key in model:
                    asked[key] = None
            case 4:
                one = due.take()
                assert (one is None) is (not model)
                if one is not None:
                    assert one == next(iter(asked)) if asked else one in model
                    model.pop(one)
                    asked.pop(one, None)
        assert len(due) == len(model)
        assert set(due) == set(model)
