// Consumer groups: join, share, commit, resume, leave.
import assert from "node:assert/strict";
import { PartitionAssigners, divided, numbers, seen, until } from "./judge.mjs";

export async function fiveMembersComeAndGo(judge, name) {
  const topic = await judge.topic(name, 10);
  const members = [];
  let written = 0;
  const write = async () => {
    await judge.write(topic, 10, numbers(50, written));
    written += 50;
  };
  for (const count of numbers(5, 1)) {
    members.push(await judge.member(name, topic));
    await divided(10, ...members);
    await write();
    await until(() => new Set(members.flatMap((one) => one.values)).size === written, `${written} values are read`);
    assert.equal(members.length, count);
  }
  const left = members.splice(0, 3);
  for (const member of left) await member.leave();
  await divided(10, ...members);
  await write();
  await until(
    () => new Set([...left, ...members].flatMap((one) => one.values)).size === written,
    `${written} values are read`,
  );
}

export async function aMemberThatLeavesCommitsAndAnotherGoesOn(judge, name) {
  const topic = await judge.topic(name, 4);
  await judge.write(topic, 4, numbers(200));
  const first = await judge.member(name, topic);
  await seen(numbers(200), first);
  await first.leave();
  await judge.write(topic, 4, numbers(100, 200));
  const second = await judge.member(name, topic);
  await seen(numbers(300), first, second);
}

export async function offsetsAreCommittedByHand(judge, name) {
  const topic = await judge.topic(name, 2);
  await judge.write(topic, 2, numbers(40));
  const member = await judge.member(name, topic, { run: { autoCommit: false } });
  await seen(numbers(40), member);
  await member.consumer.commitOffsets([
    { topic, partition: 0, offset: "5", metadata: "five" },
    { topic, partition: 1, offset: "7" },
  ]);
  const [{ partitions }] = await judge.admin.fetchOffsets({ groupId: name, topics: [topic] });
  assert.deepEqual(
    partitions.sort((a, b) => a.partition - b.partition).map((one) => [one.partition, one.offset, one.metadata]),
    [[0, "5", "five"], [1, "7", null]],
  );
  await member.leave();
  const again = await judge.member(name, topic, { run: { autoCommit: false } });
  await until(() => again.values.length === 15 + 13, "what is behind the offsets is read");
  assert.deepEqual(again.values.sort((a, b) => a - b), [
    ...numbers(15, 5).map((n) => 2 * n),
    ...numbers(13, 7).map((n) => 2 * n + 1),
  ].sort((a, b) => a - b));
}

export async function aSilentMemberIsReplaced(judge, name) {
  const topic = await judge.topic(name, 4);
  let release;
  const stuck = new Promise((resolve) => (release = resolve));
  const silent = await judge.member(name, topic, { run: { eachMessage: () => stuck } });
  await divided(4, silent);
  await judge.write(topic, 4, numbers(40));
  const other = await judge.member(name, topic, { sessionTimeout: 6000 });
  await divided(4, other);
  await seen(numbers(40), other);
  release();
}

export async function anAssignerOfOnesOwn(judge, name) {
  const topic = await judge.topic(name, 6);
  const bytes = Buffer.from([0, 255, 7]);
  const given = [];
  const greedy = ({ cluster }) => ({
    name: "GreedyAssigner",
    version: 1,
    async assign({ members, topics }) {
      const sorted = members.map((one) => one.memberId).sort();
      return sorted.map((memberId, n) => ({
        memberId,
        memberAssignment: encodeAssignment(
          Object.fromEntries(
            topics.map((one) => [one, n ? [] : cluster.findTopicPartitionMetadata(one).map((p) => p.partitionId)]),
          ),
          bytes,
        ),
      }));
    },
    protocol({ topics }) {
      return { name: this.name, metadata: encodeSubscription(topics, bytes) };
    },
  });
  const members = [];
  for (const _ of numbers(2)) members.push(await judge.member(name, topic, { partitionAssigners: [greedy] }));
  await until(() => {
    const sizes = members.map((one) => one.assigned.length).sort();
    return members.every((one) => one.protocol === "GreedyAssigner") && sizes[0] === 0 && sizes[1] === 6;
  }, "one of two members has everything");
  await judge.write(topic, 6, numbers(60));
  await seen(numbers(60), ...members);
  const { members: described } = await members[0].consumer.describeGroup();
  for (const one of described) {
    assert.deepEqual(one.memberMetadata.subarray(-3), bytes);
    assert.deepEqual(one.memberAssignment.subarray(-3), bytes);
    given.push(one.memberId);
  }
  assert.equal(given.length, 2);
}

function encodeText(text) {
  const length = Buffer.alloc(2);
  length.writeInt16BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text)]);
}

function encodeInt32(number) {
  const buffer = Buffer.alloc(4);
  buffer.writeInt32BE(number);
  return buffer;
}

function encodeSubscription(topics, bytes) {
  const version = Buffer.from([0, 1]);
  return Buffer.concat([version, encodeInt32(topics.length), ...topics.map(encodeText), encodeInt32(bytes.length), bytes]);
}

function encodeAssignment(byTopic, bytes) {
  const topics = Object.entries(byTopic).map(([topic, partitions]) =>
    Buffer.concat([encodeText(topic), encodeInt32(partitions.length), ...partitions.map(encodeInt32)]),
  );
  return Buffer.concat([Buffer.from([0, 1]), encodeInt32(topics.length), ...topics, encodeInt32(bytes.length), bytes]);
}

export async function membersOfDifferentAssignersAgree(judge, name) {
  const topic = await judge.topic(name, 4);
  const other = (options) => ({ ...PartitionAssigners.roundRobin(options), name: "Other" });
  const named = (options) => {
    const assigner = PartitionAssigners.roundRobin(options);
    return { ...assigner, name: "Other", protocol: (subscription) => ({ ...assigner.protocol(subscription), name: "Other" }) };
  };
  assert.equal(other({ cluster: {} }).name, "Other");
  const first = await judge.member(name, topic, { partitionAssigners: [named, PartitionAssigners.roundRobin] });
  await divided(4, first);
  assert.equal(first.protocol, "Other");
  const second = await judge.member(name, topic);
  await divided(4, first, second);
  assert.equal(first.protocol, "RoundRobinAssigner");
}
