// What all scenarios need: a client that fails loudly, topics, members that keep what they have seen.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const { Kafka, logLevel, PartitionAssigners, CompressionTypes, ConfigResourceTypes } = createRequire(
  `${process.env.KAFKAJS_DIRECTORY}/`,
)("kafkajs");

export { sleep, PartitionAssigners, CompressionTypes, ConfigResourceTypes };

const WAIT_MS = 60_000;

export function newClient(addresses, retry = { retries: 3 }) {
  return new Kafka({
    clientId: "judge",
    brokers: [addresses].flat(),
    logLevel: process.env.KAFKAJS_LOG ? logLevel.DEBUG : logLevel.NOTHING,
    retry,
  });
}

export async function until(condition, what) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`this did not happen: ${what}`);
    await sleep(20);
  }
}

export function numbers(count, first = 0) {
  return Array.from({ length: count }, (_, n) => n + first);
}

// An admin, a producer, topics and members; `close` ends all of them.
export class Judge {
  constructor(address) {
    this.kafka = newClient(address);
    this.admin = this.kafka.admin();
    this.producer = this.kafka.producer({ allowAutoTopicCreation: false });
    this.members = [];
  }

  async open() {
    await Promise.all([this.admin.connect(), this.producer.connect()]);
    return this;
  }

  async close() {
    await Promise.all(this.members.map((member) => member.leave()));
    await Promise.all([this.admin.disconnect(), this.producer.disconnect()]);
  }

  async topic(topic, numPartitions = 1, configEntries = []) {
    await this.admin.createTopics({ topics: [{ topic, numPartitions, configEntries }] });
    return topic;
  }

  // Record n goes to partition n modulo the number of partitions.
  async write(topic, partitions, values, options = {}) {
    const messages = values.map((value) => ({ partition: value % partitions, key: `k${value}`, value: `${value}` }));
    return this.producer.send({ topic, acks: -1, messages, ...options });
  }

  async member(groupId, topic, options = {}) {
    const member = new Member(this.kafka, groupId, topic, options);
    this.members.push(member);
    return member.start();
  }

  // The values of a partition in order, up to its end as it is now or to a certain value.
  async read(topic, { partition = 0, readUncommitted = false, last = null } = {}) {
    const [{ high }] = (await this.admin.fetchTopicOffsets(topic)).filter((one) => one.partition === partition);
    const reader = this.kafka.consumer({ groupId: `reader-${Math.random()}`, readUncommitted, maxWaitTimeInMs: 50 });
    const values = [];
    let position = 0;
    // An answer without any batch claims to end at the high watermark; it says nothing about what was read.
    reader.on(reader.events.END_BATCH_PROCESS, ({ payload }) => {
      if (payload.partition === partition && payload.firstOffset !== null) position = Number(payload.lastOffset) + 1;
    });
    await reader.connect();
    await reader.subscribe({ topics: [topic], fromBeginning: true });
    await reader.run({
      eachMessage: async ({ partition: from, message }) => {
        if (from === partition) values.push(message.value?.toString() ?? null);
      },
    });
    const done = () => (last === null ? position >= Number(high) : values.at(-1) === last);
    await until(done, `${topic}-${partition} is read to ${high}`);
    await reader.disconnect();
    return values;
  }
}

// A consumer of a group that keeps its assignment and what it has read.
class Member {
  constructor(kafka, groupId, topic, { run = {}, ...config }) {
    this.topic = topic;
    this.values = [];
    this.assigned = [];
    this.joins = 0;
    this.run = run;
    this.consumer = kafka.consumer({
      groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 50, rebalanceTimeout: 10_000, ...config,
    });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.joins += 1;
      this.protocol = payload.groupProtocol;
      this.assigned = payload.memberAssignment[topic] ?? [];
    });
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      this.crash = payload.error;
    });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true });
    const keep = async ({ message }) => {
      this.values.push(Number(message.value.toString()));
    };
    await this.consumer.run(this.run.eachBatch ? this.run : { eachMessage: keep, ...this.run });
    return this;
  }

  async leave() {
    const consumer = this.consumer;
    this.consumer = null;
    if (consumer) await consumer.disconnect();
  }
}

export async function divided(partitions, ...members) {
  await until(() => {
    const shares = members.map((member) => member.assigned);
    const sizes = shares.map((share) => share.length);
    return (
      Math.max(...sizes) - Math.min(...sizes) <= 1 &&
      JSON.stringify(shares.flat().sort((a, b) => a - b)) === JSON.stringify(numbers(partitions))
    );
  }, `${partitions} partitions are divided among ${members.length} members`);
}

export async function seen(values, ...members) {
  const wanted = JSON.stringify(values);
  const all = () => members.flatMap((member) => member.values).sort((a, b) => a - b);
  await until(() => JSON.stringify(all()) === wanted, `${values.length} values are read once, there are ${all().length}`);
}
