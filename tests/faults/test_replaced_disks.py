"""Partitions of one replica whose disk was replaced lead again; while a disk is merely away none of them begins anew."""

import shutil
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.hot.log.moving import LogMoving
from stratalog.metadata.image.topics_image import NO_LEADER
from stratalog.wire.errors import ErrorCode
from stratalog.wire.topic import TopicPartition
from tests.broker.nodes_of_a_cluster import RunningNodes

PARTITIONS = 4


class Bench:
    """A broker with three log directories, one for the metadata, and a topic with one replica."""

    def __init__(self, directory):
        self.nodes = RunningNodes(directory, {1: "controller", 2: "broker"})
        self.node = self.nodes[2]
        self.path = {name: Path(self.node.directory, name) for name in ("data", "one", "two")}
        self.node.settings["log.dirs"] = f"{self.path['one']},{self.path['two']}"
        self.node.settings["metadata.log.dir"] = str(self.path["data"])
        self.nodes.format(2, ignore_formatted=True)

    def start(self):
        self.nodes.start()
        create_topic(self.node.client(), "t", partition_count=PARTITIONS, replication_factor=1)
        self.until(lambda: all(self.lies_in(number) for number in range(PARTITIONS)))
        for number in range(PARTITIONS):
            self.node.produce("t", b"v", partition=number)

    def state(self, number):
        return self.node.node.image.topics.by_name["t"].partitions[number]

    def lies_in(self, number):
        """The name of the directory by the image, once it names one."""
        ids = {one.directory_id: Path(one.path).name for one in self.node.node.directories.all}
        topic = self.node.node.image.topics.by_name.get("t")
        return None if topic is None else ids.get(topic.partitions[number].directory_of(2))

    def in_directory(self, name):
        return [number for number in range(PARTITIONS) if self.lies_in(number) == name]

    def until(self, holds):
        self.node.wait_until(holds)

    def is_open(self, number):
        return self.node.node.partitions.get(TopicPartition("t", number)) is not None

    def announce(self, monkeypatch, number, target):
        """Begin a move that the controller knows of, and that does not come to its end."""
        monkeypatch.setattr(LogMoving, "is_at", lambda *_: False)
        name = TopicPartition("t", number)
        assert self.node.run(lambda: self.node.node.moves.ask(name, str(self.path[target]))) is ErrorCode.NONE
        self.until(lambda: self.lies_in(number) == target)

    def replace(self, *names):
        for name in names:
            shutil.rmtree(self.path[name]) if self.path[name].is_dir() else self.path[name].unlink()
        self.nodes.format(2, ignore_formatted=True)

    def kill(self, name):
        shutil.move(self.path[name], self.path[name].with_name(f"{name}.kept"))
        self.path[name].write_bytes(b"")


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.nodes.stop()


@pytest.mark.story
@pytest.mark.parametrize("names", [("two",), ("one", "two")])
def test_partitions_of_a_replaced_disk_begin_anew(bench, names, caplog):
    """Those of the other disk go on. Each loss is named."""
    others = bench.in_directory("one") if len(names) == 1 else []
    bench.node.stop()
    bench.replace(*names)
    bench.node.start()
    bench.until(lambda: all(bench.state(number).leader == 2 for number in range(PARTITIONS)))
    for number in range(PARTITIONS):
        assert bench.node.values("t", number) == ([b"v"] if number in others else [])
        assert bench.node.produce("t", b"new", partition=number) == [1 if number in others else 0]
        assert (f"t-{number}: its log is gone from" in caplog.text) is (number not in others)
    bench.node.restart()
    bench.until(lambda: all(bench.state(number).leader == 2 for number in range(PARTITIONS)))
    assert bench.node.values("t", bench.in_directory("two")[0])[-1] == b"new"


@pytest.mark.story
def test_a_directory_that_is_left_out_is_waited_for_unless_one_is_made_by_hand(bench, caplog):
    """It may come back. With it all is there again."""
    (number, other), settings = bench.in_directory("two"), bench.node.settings["log.dirs"]
    bench.node.stop()
    bench.node.settings["log.dirs"] = str(bench.path["one"])
    for _ in range(2):
        bench.node.start()
        assert bench.state(number).leader == NO_LEADER
        bench.node.stop()
    assert f"t-{number} cannot be opened: it lies in directory" in caplog.text
    (bench.path["one"] / f"t-{number}").mkdir()
    bench.node.start()
    bench.until(lambda: bench.state(number).leader == 2)
    assert bench.node.produce("t", b"new", partition=number) == [0]
    assert bench.state(other).leader == NO_LEADER
    bench.node.stop()
    bench.node.settings["log.dirs"] = settings
    bench.node.start()
    bench.until(lambda: all(bench.state(one).leader == 2 for one in range(PARTITIONS)))
    assert (bench.node.values("t", number), bench.node.values("t", other)) == ([b"new"], [b"v"])


@pytest.mark.story
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_log_that_was_about_to_move_from_a_dead_disk_waits_for_it(bench, monkeypatch, caplog, is_replaced):
    """The copy where it was to go is not complete. It begins anew when that disk is replaced."""
    number = bench.in_directory("one")[0]
    bench.announce(monkeypatch, number, "two")
    bench.node.stop()
    monkeypatch.undo()
    bench.kill("one")
    bench.node.start()
    assert not bench.is_open(number)
    bench.node.stop()
    if is_replaced:
        bench.replace("one")
    else:
        bench.path["one"].unlink()
        shutil.move(bench.path["one"].with_name("one.kept"), bench.path["one"])
    assert f"t-{number}: its log is gone" not in caplog.text
    bench.node.start()
    bench.until(lambda: bench.state(number).leader == 2 and bench.is_open(number))
    assert bench.node.values("t", number) == ([] if is_replaced else [b"v"])
    assert (f"t-{number}: its log is gone" in caplog.text) is is_replaced


@pytest.mark.story
def test_a_log_that_was_about_to_move_to_a_dead_disk_leads_when_that_is_replaced(bench, monkeypatch, caplog):
    """It never moved, and is whole. Until then the other disk may have one that went on."""
    number = bench.in_directory("one")[0]
    bench.announce(monkeypatch, number, "two")
    bench.node.stop()
    monkeypatch.undo()
    bench.kill("two")
    bench.node.start()
    assert not bench.is_open(number)
    assert "replace it by an empty one: the log goes on here then" in caplog.text
    bench.node.stop()
    bench.replace("two")
    bench.node.start()
    bench.until(lambda: bench.state(number).leader == 2)
    assert bench.node.values("t", number) == [b"v"]
    assert bench.lies_in(number) == "one"


@pytest.mark.story
@pytest.mark.parametrize("is_left_out", [False, True])
def test_partitions_of_a_disk_that_was_replaced_while_another_was_dead_begin_anew_when_that_is_back(bench, is_left_out):
    """They waited for ever: by then the new disk was none any more. One that is merely left out is waited for on."""
    lost, kept = bench.in_directory("two"), bench.in_directory("one")
    bench.node.stop()
    bench.replace("two")
    bench.kill("one")
    bench.node.start()
    assert not any(bench.is_open(number) for number in range(PARTITIONS))
    bench.node.stop()
    if is_left_out:
        bench.node.settings["log.dirs"] = str(bench.path["two"])
        bench.node.start()
        assert {bench.state(number).leader for number in range(PARTITIONS)} == {NO_LEADER}
        bench.node.stop()
        bench.node.settings["log.dirs"] = f"{bench.path['one']},{bench.path['two']}"
    bench.path["one"].unlink()
    shutil.move(bench.path["one"].with_name("one.kept"), bench.path["one"])
    bench.node.start()
    bench.until(lambda: all(bench.state(number).leader == 2 and bench.is_open(number) for number in range(PARTITIONS)))
    assert [bench.node.values("t", number) for number in kept] == [[b"v"]] * len(kept)
    assert [bench.node.produce("t", b"new", partition=number) for number in lost] == [[0]] * len(lost)
