// Administration: topics, groups, offsets, settings.
import assert from "node:assert/strict";
import { ConfigResourceTypes, divided, numbers, seen, until } from "./judge.mjs";

export async function theWholeLifeOfATopic(judge, name) {
  const { admin } = judge;
  await judge.topic(name, 2, [{ name: "cleanup.policy", value: "compact" }]);
  assert((await admin.listTopics()).includes(name));
  assert.equal(await admin.createTopics({ topics: [{ topic: name }] }), false);
  await admin.createPartitions({ topicPartitions: [{ topic: name, count: 5 }] });
  const { topics: [described] } = await admin.fetchTopicMetadata({ topics: [name] });
  assert.deepEqual(described.partitions.map((one) => one.partitionId).sort(), numbers(5));
  for (const one of described.partitions) assert.deepEqual([one.leader, one.replicas, one.isr], [1, [1], [1]]);
  await admin.deleteTopics({ topics: [name] });
  await until(async () => !(await admin.listTopics()).includes(name), "the topic is gone");
  await assert.rejects(admin.fetchTopicMetadata({ topics: [name] }), { type: "UNKNOWN_TOPIC_OR_PARTITION" });
}

export async function settingsAreDescribedAndAltered(judge, name) {
  const topic = await judge.topic(name);
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const values = async () => {
    const { resources: [found] } = await judge.admin.describeConfigs({ resources: [resource], includeSynonyms: true });
    return Object.fromEntries(found.configEntries.map((one) => [one.configName, one.configValue]));
  };
  assert.equal((await values())["retention.ms"], "604800000");
  const configEntries = [{ name: "retention.ms", value: "1000" }, { name: "max.message.bytes", value: "2000" }];
  await judge.admin.alterConfigs({ validateOnly: true, resources: [{ ...resource, configEntries }] });
  assert.equal((await values())["retention.ms"], "604800000");
  await judge.admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
  assert.equal((await values())["retention.ms"], "1000");
  await assert.rejects(judge.producer.send({ topic, messages: [{ value: "x".repeat(3000) }] }), {
    type: "MESSAGE_TOO_LARGE",
  });
  const bad = [{ name: "retention.ms", value: "soon" }];
  await assert.rejects(judge.admin.alterConfigs({ resources: [{ ...resource, configEntries: bad }] }), {
    type: "INVALID_CONFIG",
  });
  const { resources: [broker] } = await judge.admin.describeConfigs({
    resources: [{ type: ConfigResourceTypes.BROKER, name: "1", configNames: ["log.segment.bytes"] }],
    includeSynonyms: false,
  });
  assert.equal(broker.configEntries[0].configValue, "1073741824");
}

export async function theCluster(judge) {
  const cluster = await judge.admin.describeCluster();
  assert.equal(cluster.brokers.length, 1);
  assert.equal(cluster.controller, cluster.brokers[0].nodeId);
  assert.equal(cluster.clusterId.length, 22);
}

export async function groupsAreListedDescribedAndDeleted(judge, name) {
  const topic = await judge.topic(name, 4);
  await judge.write(topic, 4, numbers(40));
  const member = await judge.member(name, topic);
  await divided(4, member);
  await seen(numbers(40), member);
  const { groups } = await judge.admin.listGroups();
  assert.deepEqual(groups.filter((one) => one.groupId === name), [{ groupId: name, protocolType: "consumer" }]);
  const { groups: [described] } = await judge.admin.describeGroups([name]);
  assert.deepEqual(
    [described.state, described.protocol, described.protocolType, described.members.length],
    ["Stable", "RoundRobinAssigner", "consumer", 1],
  );
  assert.equal(described.members[0].clientId, "judge");
  await assert.rejects(judge.admin.deleteGroups([name]), (error) => error.groups[0].error.type === "NON_EMPTY_GROUP");
  await member.leave();
  assert.deepEqual(await judge.admin.deleteGroups([name]), [{ groupId: name, errorCode: 0 }]);
  const { groups: [gone] } = await judge.admin.describeGroups([name]);
  assert.equal(gone.state, "Dead");
}

export async function offsetsOfAGroupAreSetAndReset(judge, name) {
  const { admin } = judge;
  const topic = await judge.topic(name, 2);
  await judge.write(topic, 2, numbers(40));
  const offsets = async () => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: name, topics: [topic] });
    return partitions.sort((a, b) => a.partition - b.partition).map((one) => one.offset);
  };
  assert.deepEqual(await offsets(), ["-1", "-1"]);
  await admin.setOffsets({ groupId: name, topic, partitions: [{ partition: 0, offset: "3" }, { partition: 1, offset: "9" }] });
  assert.deepEqual(await offsets(), ["3", "9"]);
  const all = await admin.fetchOffsets({ groupId: name });
  assert.deepEqual(all.map((one) => one.topic), [topic]);
  await admin.resetOffsets({ groupId: name, topic, earliest: false });
  const [resolved] = await admin.fetchOffsets({ groupId: name, topics: [topic], resolveOffsets: true });
  assert.deepEqual(resolved.partitions.map((one) => one.offset), ["20", "20"]);
}

export async function recordsAreDeleted(judge, name) {
  const topic = await judge.topic(name);
  await judge.write(topic, 1, numbers(20));
  await judge.admin.fetchTopicOffsets(topic); // it looks for leaders only of topics that it was asked about
  await judge.admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "15" }] });
  const [{ low, high }] = await judge.admin.fetchTopicOffsets(topic);
  assert.deepEqual([low, high], ["15", "20"]);
  assert.deepEqual(await judge.read(topic), numbers(5, 15).map(String));
}

export async function reassignmentsAreListed(judge, name) {
  await judge.topic(name);
  assert.deepEqual((await judge.admin.listPartitionReassignments({})).topics, []);
}
