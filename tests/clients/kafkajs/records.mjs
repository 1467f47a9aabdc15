// Records, and what the broker says about them.
import assert from "node:assert/strict";
import { CompressionTypes, numbers, until } from "./judge.mjs";

export async function recordsComeBackAsTheyWereWritten(judge, name) {
  const topic = await judge.topic(name);
  const messages = [
    { key: "k", value: "v", headers: { one: "1", two: Buffer.from([0, 255]) }, timestamp: "1372896000000" },
    { key: null, value: "no key", timestamp: "1372896001000" },
    { key: "tombstone", value: null, timestamp: "1372896002000" },
    { key: "long", value: "x".repeat(100_000), timestamp: "1372896003000" },
  ];
  const [sent] = await judge.producer.send({ topic, messages });
  assert.equal(sent.baseOffset, "0");
  const found = [];
  const consumer = judge.kafka.consumer({ groupId: topic });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => void found.push(message) });
  await until(() => found.length === messages.length, "all records come");
  await consumer.disconnect();
  found.forEach((one, n) => {
    assert.equal(one.offset, `${n}`);
    assert.equal(one.timestamp, messages[n].timestamp);
    assert.equal(one.key?.toString() ?? null, messages[n].key);
    assert.equal(one.value?.toString() ?? null, messages[n].value);
  });
  assert.deepEqual(found[0].headers, { one: Buffer.from("1"), two: Buffer.from([0, 255]) });
}

export async function gzipAndEveryAcks(judge, name) {
  const topic = await judge.topic(name);
  await judge.write(topic, 1, numbers(100), { compression: CompressionTypes.GZIP });
  await judge.write(topic, 1, numbers(100, 100), { acks: 1 });
  await judge.write(topic, 1, numbers(100, 200), { acks: 0 });
  await until(async () => (await judge.admin.fetchTopicOffsets(topic))[0].high === "300", "300 records are there");
  assert.deepEqual(await judge.read(topic), numbers(300).map(String));
}

export async function anIdempotentProducer(judge, name) {
  const topic = await judge.topic(name, 3);
  const producer = judge.kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const round of numbers(20))
    await producer.send({
      topic,
      messages: numbers(30, round * 30).map((n) => ({ partition: n % 3, value: `${n}` })),
    });
  await producer.disconnect();
  for (const partition of numbers(3)) {
    const expected = numbers(600).filter((n) => n % 3 === partition);
    assert.deepEqual(await judge.read(topic, { partition }), expected.map(String));
  }
}

export async function seekPauseAndResume(judge, name) {
  const topic = await judge.topic(name, 2);
  await judge.write(topic, 2, numbers(100));
  const member = await judge.member(name, topic);
  await until(() => member.values.length === 100, "all is read");
  member.consumer.pause([{ topic, partitions: [0] }]);
  await judge.write(topic, 2, [100, 101]);
  await until(() => member.values.includes(101), "what is not paused is read");
  assert(!member.values.includes(100));
  member.consumer.resume([{ topic, partitions: [0] }]);
  await until(() => member.values.includes(100), "what is resumed is read");
  member.values = [];
  member.consumer.seek({ topic, partition: 0, offset: "40" });
  await until(() => member.values.length === 11, "the rest behind offset 40 is read again");
  assert.deepEqual(member.values, numbers(11, 40).map((n) => n * 2));
}

export async function offsetsByTime(judge, name) {
  const topic = await judge.topic(name);
  const messages = numbers(10).map((n) => ({ value: `${n}`, timestamp: `${1_372_896_000_000 + n * 1000}` }));
  await judge.producer.send({ topic, messages });
  const [found] = await judge.admin.fetchTopicOffsetsByTimestamp(topic, 1_372_896_003_500);
  assert.equal(found.offset, "4");
  const [behind] = await judge.admin.fetchTopicOffsetsByTimestamp(topic, 1_372_896_999_999);
  assert.equal(behind.offset, "10");
}
