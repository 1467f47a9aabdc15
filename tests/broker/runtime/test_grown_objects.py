"""The collector is spared what came after the start; the tests run the collector of this process."""

import gc
import time

import pytest

from stratalog.broker.runtime.grown_objects import GROWN_OBJECTS, GrownObjects
from stratalog.metadata.access.acl_rules import AclRule
from stratalog.metadata.access.acls import AclsImage


class Held:
    """A number of rules that tests change."""

    def __init__(self):
        self.count = 1_000

    def __call__(self):
        return self.count


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def due():
    """Callables for later."""
    return []


@pytest.fixture
def grown(held, due):
    """Everything of the tests before is frozen and let go of afterwards."""
    gc.collect()
    gc.freeze()
    rules = GrownObjects(held, due.append)
    yield rules
    rules.close()
    gc.unfreeze()


@pytest.mark.story
@pytest.mark.usefixtures("grown")
def test_many_rules_more_are_frozen_after_the_next_full_collection(held):
    """A collection of young objects freezes none of them; the next full one freezes all."""
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    held.count += GROWN_OBJECTS - 1
    gc.collect()
    assert gc.get_freeze_count() <= before
    held.count += 1
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.story
@pytest.mark.parametrize(("grown_by", "generation"), [(GROWN_OBJECTS, 2), (GROWN_OBJECTS * 20, 1)])
@pytest.mark.usefixtures("grown")
def test_a_full_collection_comes_before_there_is_much_to_look_at(held, due, grown_by, generation, monkeypatch):
    """33,000 logs were looked at for more than a second, again and again. Objects that come at once are frozen unseen."""
    generations = []
    monkeypatch.setattr(gc, "callbacks", [*gc.callbacks, lambda phase, found: generations.append(found["generation"])])
    kept = [[number] for number in range(1_000)]
    before = gc.get_freeze_count()
    held.count += grown_by
    gc.collect(1)
    gc.collect(1)
    assert gc.get_freeze_count() <= before
    (collect,) = due
    generations.clear()
    collect()
    assert set(generations) <= {generation}
    assert gc.get_freeze_count() >= before + len(kept)
    due.clear()
    gc.collect(1)
    assert due == []


@pytest.mark.story
def test_a_collection_that_was_due_at_the_end_freezes_nothing(held, due, grown):
    """The loop may call it after the end."""
    held.count += GROWN_OBJECTS
    gc.collect(1)
    before = gc.get_freeze_count()
    (collect,) = due
    monkey = GrownObjects(held, due.append)
    monkey.close()
    monkey._collect()
    assert gc.get_freeze_count() <= before
    collect()


@pytest.mark.story
@pytest.mark.usefixtures("grown")
def test_rules_that_come_and_go_freeze_nothing(held):
    """Objects that live at a freeze would stay in memory: a client may add and remove rules without end."""
    held.count += GROWN_OBJECTS
    gc.collect()
    frozen = gc.get_freeze_count()
    for _ in range(5):
        kept = [[number] for number in range(1_000)]
        held.count -= GROWN_OBJECTS
        gc.collect()
        held.count += GROWN_OBJECTS
        gc.collect()
    assert gc.get_freeze_count() < frozen + len(kept)


@pytest.mark.story
@pytest.mark.usefixtures("grown")
def test_objects_that_are_not_counted_are_frozen_up_to_a_bound(held):
    """Indexes of logs that exist since the start; but not what has come and gone again and again."""
    held.count = GROWN_OBJECTS
    frozen = []
    for _ in range(5):
        kept = [[number] for number in range(GROWN_OBJECTS)]
        before = gc.get_freeze_count()
        gc.collect()
        frozen.append(gc.get_freeze_count() >= before + len(kept))
    assert frozen[0]
    assert 1 <= sum(frozen) <= 3
    assert frozen == sorted(frozen, reverse=True)


@pytest.mark.story
def test_a_full_collection_does_not_look_at_the_rules(held, grown):
    """It took ten times as long with these rules, and takes as long as without."""
    alone = collection_seconds()
    rules = {
        number.to_bytes(16, "big"): AclRule(2, f"t{number}", 3, f"User:u{number % 50}", "*", 3, 3)
        for number in range(20_000)
    }
    image = AclsImage.of(rules)
    looked_at = collection_seconds()
    held.count += 5 * len(image.by_id)
    gc.collect()
    assert collection_seconds() < max(alone * 3, looked_at / 3)


def test_after_the_end_nothing_is_frozen(held):
    """The callback is gone."""
    callbacks = len(gc.callbacks)
    GrownObjects(held, lambda _call: None).close()
    assert len(gc.callbacks) == callbacks


def collection_seconds():
    """CPU time of the shortest of three full collections."""
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        gc.collect()
        taken.append(time.thread_time() - begun)
    return min(taken)
