"""Kafka Streams with exactly_once_v2: the word count of its examples, killed again and again."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
INPUT, OUTPUT, PARTITIONS = "streams-plaintext-input", "streams-wordcount-output", 3
WORDS = [f"word{n}" for n in range(200)]
LINES = 6000


@pytest.fixture(scope="module")
def broker(serve):
    """A broker with the topics that the example asks for."""
    broker = serve("log.cleaner.backoff.ms=500", "group.initial.rebalance.delay.ms=0")
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    made = admin.create_topics([NewTopic(INPUT, PARTITIONS), NewTopic(OUTPUT, PARTITIONS)])
    for future in made.values():
        future.result(60)
    return broker


def counts_written(address: str, isolation: str = "read_committed") -> list[tuple[str, int]]:
    """Every word with its count in the output, in the order of its partition, as a consumer of this isolation sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(OUTPUT, number, 0) for number in range(PARTITIONS)])
    rows, ended = [], set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, f"nothing came after {len(rows)} counts"
        if message.error():
            ended.add(message.partition())
        else:
            rows.append((message.key().decode(), int.from_bytes(message.value(), "big")))
    consumer.close()
    return rows


def test_a_word_count_that_is_killed_counts_every_word_once(background, broker, clients, until, tmp_path) -> None:
    """Two kills of the application and one of the broker: each word's counts are 1, 2, 3 … to its true number."""
    dice = random.Random(4)
    lines = [" ".join(dice.choices(WORDS, k=8)) for _ in range(LINES)]

    def feed(part: int) -> None:
        chunk = lines[part * LINES // 3 : (part + 1) * LINES // 3]
        clients.load(broker.address, "lz4", [(INPUT, n % PARTITIONS, line.encode(), 0) for n, line in enumerate(chunk)])

    config = tmp_path / "streams.properties"
    config.write_text(
        f"bootstrap.servers={broker.address}\nprocessing.guarantee=exactly_once_v2\nstate.dir={tmp_path}/state\n"
        "commit.interval.ms=100\nnum.stream.threads=2\nproducer.transaction.timeout.ms=10000\n"
        "main.consumer.session.timeout.ms=6000\nmain.consumer.heartbeat.interval.ms=500\n"
    )
    feed(0)

    def at_work():
        before = len(counts_written(broker.address))
        application = background(WORD_COUNT, str(config))
        until(lambda: application.alive() and len(counts_written(broker.address)) > before)
        return application

    for part in (1, 2):
        application = at_work()
        feed(part)
        application.kill()
    last = at_work()
    broker.kill()
    broker.start()
    expected = Counter(word for line in lines for word in line.split())
    until(lambda: last.alive() and len(counts_written(broker.address)) >= expected.total())
    last.stop()
    written: dict[str, list[int]] = {}
    for word, count in counts_written(broker.address):
        written.setdefault(word, []).append(count)
    assert written == {word: list(range(1, count + 1)) for word, count in expected.items()}
    lost = len(counts_written(broker.address, "read_uncommitted")) - expected.total()
    print(
        f"{expected.total():,} words of {LINES:,} lines counted once; {lost:,} counts of killed transactions are not seen"
    )
