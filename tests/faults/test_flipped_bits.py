"""A whole broker over a data directory in which one bit flipped while it was down.

It starts, or refuses with an error of ours that can be read; whatever it serves is what was acknowledged.
"""

import asyncio
import logging
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.broker.archive.bucket_gate import BucketGate
from stratalog.wire.errors import KafkaError, StratalogError

TOPICS = ("one", "two")
LEFT_OUT = (".lock", "quarantine.json")
START_SECONDS = 300
"""A sweep runs for an hour and more beside other work; a start that hangs fails all the same."""


@pytest.fixture(scope="module", params=["killed", "stopped"])
def image(request, tmp_path_factory, start_shared_node):
    """A data directory, and the values in it: two topics, a snapshot of the metadata, settings, a deleted topic."""
    node = start_shared_node(metadata_log_max_record_bytes_between_snapshots=3000)
    path = tmp_path_factory.mktemp("image") / "data"
    for topic in (*TOPICS, "gone"):
        node.create(topic)
        for number in range(4):
            node.produce(topic, b"%d of " % number + topic.encode())
    for number in range(6):
        node.create(f"further{number}")
    from stratalog.client.admin import delete_topics

    delete_topics(node.client(), ["gone"])
    values = {topic: node.values(topic) for topic in TOPICS}
    if request.param == "stopped":
        node.stop()
    node_path = Path(node.directory, "data")
    shutil.copytree(node_path, path)
    node.stop()
    return path, values


def places(path: Path) -> Iterator[tuple[str, int]]:
    """Every bit of the metadata and of the files beside the partitions, as file and number."""
    for one in sorted(path.rglob("*")):
        name = str(one.relative_to(path))
        if one.is_file() and name not in LEFT_OUT and (name.startswith("__") or "/" not in name or "one-0" in name):
            for bit in range(one.stat().st_size * 8):
                yield name, bit


def judge(image, start_node, where, caplog) -> str:
    """Start over one flipped bit; how it ended. Raises `AssertionError` for what must not be."""
    (original, values), (name, bit) = image, where
    directory = f"{name.replace('/', '_')}-{bit}"
    node = start_node(directory=directory, start=False)
    data = Path(node.directory, "data")
    shutil.copytree(original, data)
    path = data / name
    status, content = path.stat(), bytearray(path.read_bytes())
    content[bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        try:
            node.start(START_SECONDS)
        except (StratalogError, KafkaError, OSError) as error:
            assert len(str(error)) > 30, (where, error)
            return "refused"
    told = bool(caplog.records)
    try:
        for topic, wanted in values.items():
            try:
                found = node.values(topic)
            except StratalogError:  # the client's own check of the CRC
                return "refused"
            assert told or found == wanted, (where, topic, found)
            assert set(found) <= set(wanted), (where, topic, found)
            assert node.produce(topic, b"after")
    finally:
        node.stop()
        shutil.rmtree(node.directory)
    return "told" if told else "unharmed"


@pytest.mark.story
def test_a_start_that_does_not_end_is_no_refusal(start_node, monkeypatch):
    """It fails, and says where it is."""
    go_on = threading.Event()

    async def looks_for_ever(_gate):
        await asyncio.to_thread(go_on.wait)

    monkeypatch.setattr(BucketGate, "look_at_start", looks_for_ever)
    node = start_node(start=False)
    try:
        with pytest.raises(AssertionError, match=r"has not started within 3 s(.|\n)*Task-.*test_flipped_bits.py"):
            node.start(3)
    finally:
        go_on.set()


@pytest.mark.story
def test_a_sample_of_the_bits_of_a_broker(image, start_node, caplog):
    """One of every file."""
    dice = random.Random(4)
    every: dict[str, list[tuple[str, int]]] = {}
    for where in places(image[0]):
        every.setdefault(where[0], []).append(where)
    assert {"meta.properties", "__cluster_metadata-0/quorum-state"} <= every.keys()
    outcomes = Counter(judge(image, start_node, dice.choice(of_file), caplog) for of_file in every.values())
    assert outcomes["unharmed"]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_bits_of_a_broker(image, start_node, caplog):
    """Every bit of the small files, and one in fifty of the others."""
    dice = random.Random(5)
    sizes = Counter(name for name, _ in places(image[0]))
    chosen = [where for where in places(image[0]) if sizes[where[0]] < 2500 or dice.random() < 0.02]
    outcomes = Counter(judge(image, start_node, where, caplog) for where in chosen)
    assert outcomes["unharmed"]
    assert outcomes["refused"]
