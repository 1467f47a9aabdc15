"""The bucket shows nothing of what was archived: it was emptied, unmounted or rolled back."""

import threading
import time

import pytest

from stratalog.wire.errors import KafkaError
from stratalog.wire.topic import TopicPartition


def test_readers_of_a_bucket_that_was_emptied_hear_of_it_and_ask_little(tiered):
    """A look-up by time ends, a fetch too, and both work once the bucket is back."""
    tiered.topic("t")
    tiered.write("t", 20)
    tiered.archived("t")
    tiered.check_reads("t")
    held = {one.key: tiered.memory.get(one.key)[0] for one in list(tiered.memory.list(""))}
    tiered.memory.delete_many(list(held))
    requests = lambda: sum(tiered.node.run(lambda: dict(tiered.node.node.tiering._requests)).values())  # noqa: E731
    before, refused, name = requests(), [], TopicPartition("t", 0)

    def ask():
        for call in (lambda: tiered.node.client().list_offsets({name: 1}), lambda: tiered.read("t")):
            with pytest.raises(KafkaError) as error:
                call()
            refused.append(error.value)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert requests() - before < 100
    assert len(refused) == 2
    for key, data in held.items():
        tiered.memory.put(key, data)
    deadline = time.monotonic() + 20
    while not reads(tiered):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert tiered.node.client().list_offsets({name: 1})[name].offset == 0


def reads(tiered):
    """Whether a consumer gets everything: an error is remembered for some seconds."""
    try:
        tiered.check_reads("t")
    except KafkaError:
        return False
    return True
