// Transactions: commits, aborts, offsets inside, fencing.
import assert from "node:assert/strict";
import { numbers, until } from "./judge.mjs";

async function transactional(judge, transactionalId, options = {}) {
  const producer = judge.kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, ...options });
  await producer.connect();
  return producer;
}

const messages = (...values) => values.map((value) => ({ partition: 0, value: `${value}` }));

export async function commitsAreSeenAndAbortsAreNot(judge, name) {
  const topic = await judge.topic(name);
  const producer = await transactional(judge, name);
  for (const round of numbers(10)) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: messages(2 * round, 2 * round + 1) });
    await (round % 3 === 1 ? transaction.abort() : transaction.commit());
  }
  await producer.disconnect();
  const committed = numbers(20).filter((n) => Math.floor(n / 2) % 3 !== 1);
  await judge.producer.send({ topic, messages: messages("end") });
  assert.deepEqual(await judge.read(topic, { last: "end" }), [...committed.map(String), "end"]);
  assert.deepEqual(await judge.read(topic, { last: "end", readUncommitted: true }), [...numbers(20).map(String), "end"]);
}

export async function offsetsOfATransactionCountWhenItCommits(judge, name) {
  const [source, copy] = [await judge.topic(`${name}-source`), await judge.topic(`${name}-copy`)];
  await judge.producer.send({ topic: source, messages: messages(...numbers(10)) });
  const producer = await transactional(judge, name);
  const committed = async () => {
    const [{ partitions }] = await judge.admin.fetchOffsets({ groupId: name, topics: [source] });
    return partitions[0].offset;
  };
  const copyUpTo = async (end) => {
    const transaction = await producer.transaction();
    await transaction.send({ topic: copy, messages: messages(end) });
    const topics = [{ topic: source, partitions: [{ partition: 0, offset: `${end}` }] }];
    await transaction.sendOffsets({ consumerGroupId: name, topics });
    return transaction;
  };
  await (await copyUpTo(4)).commit();
  await until(async () => (await committed()) === "4", "the offset of the committed transaction is there");
  await (await copyUpTo(8)).abort();
  const transaction = await copyUpTo(6);
  await transaction.commit();
  await until(async () => (await committed()) === "6", "the offset of the aborted transaction never is");
  await producer.disconnect();
  await judge.producer.send({ topic: copy, messages: messages("end") });
  assert.deepEqual(await judge.read(copy, { last: "end" }), ["4", "6", "end"]);
}

export async function aSecondProducerFencesTheFirst(judge, name) {
  const topic = await judge.topic(name);
  const first = await transactional(judge, name);
  const lost = await first.transaction();
  await lost.send({ topic, messages: messages("lost") });
  const second = await transactional(judge, name);
  const transaction = await second.transaction();
  await transaction.send({ topic, messages: messages("kept") });
  await assert.rejects(lost.commit(), (error) => ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"].includes(error.type));
  await transaction.commit();
  await Promise.all([first.disconnect(), second.disconnect()]);
  await judge.producer.send({ topic, messages: messages("end") });
  assert.deepEqual(await judge.read(topic, { last: "end" }), ["kept", "end"]);
}

export async function aTransactionThatTakesTooLongIsAborted(judge, name) {
  const topic = await judge.topic(name);
  const producer = await transactional(judge, name, { transactionTimeout: 1000 });
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: messages("late") });
  await judge.producer.send({ topic, messages: messages("end") });
  const end = async () => (await judge.admin.fetchTopicOffsets(topic))[0].high;
  assert.equal(await end(), "0");
  await until(async () => (await end()) === "3", "the transaction is aborted");
  assert.deepEqual(await judge.read(topic), ["end"]);
  await assert.rejects(transaction.commit());
  await producer.disconnect();
}

export async function aCopyOfEveryRecordOnce(judge, name) {
  const [source, copy] = [await judge.topic(`${name}-source`, 3), await judge.topic(`${name}-copy`, 3)];
  for (const round of numbers(10)) await judge.write(source, 3, numbers(60, 60 * round));
  let transactions = 0;
  const producer = await transactional(judge, name);
  const eachBatch = async ({ batch, resolveOffset }) => {
    const transaction = await producer.transaction();
    transactions += 1;
    await transaction.send({
      topic: copy,
      messages: batch.messages.map(({ value }) => ({ partition: batch.partition, value })),
    });
    const last = Number(batch.lastOffset()) + 1;
    const topics = [{ topic: source, partitions: [{ partition: batch.partition, offset: `${last}` }] }];
    await transaction.sendOffsets({ consumerGroupId: name, topics });
    if (transactions === 2) {
      await transaction.abort();
      throw new Error("once, to be done again");
    }
    await transaction.commit();
    resolveOffset(batch.lastOffset());
  };
  await judge.member(name, source, { run: { eachBatch, autoCommit: false }, maxBytesPerPartition: 500 });
  const end = async () => {
    const [{ partitions }] = await judge.admin.fetchOffsets({ groupId: name, topics: [source] });
    return partitions.every((one) => one.offset === "200");
  };
  await until(end, "the group is at the end of the source");
  await producer.disconnect();
  for (const partition of numbers(3)) {
    await judge.producer.send({ topic: copy, messages: [{ partition, value: "end" }] });
    const expected = numbers(600).filter((n) => n % 3 === partition);
    assert.deepEqual(await judge.read(copy, { partition, last: "end" }), [...expected.map(String), "end"]);
  }
  assert(transactions > 10);
}
