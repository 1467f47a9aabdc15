// A producer that writes on while nodes are killed: its progress is printed, and it ends when its input does.
import { newClient, sleep } from "./judge.mjs";

export async function writeUntilToldToStop(address, topic) {
  const producer = newClient(address, { retries: 60, maxRetryTime: 5000 }).producer();
  await producer.connect();
  let isOpen = true;
  process.stdin.resume();
  process.stdin.on("end", () => (isOpen = false));
  for (let number = 0; isOpen; number++) {
    const [sent] = await producer.send({ topic, acks: -1, messages: [{ partition: 0, value: `${number}` }] });
    console.log(JSON.stringify({ partition: sent.partition, offset: Number(sent.baseOffset), value: `${number}` }));
    await sleep(5);
  }
  await producer.disconnect();
}

export async function createTopic(address, topic) {
  const admin = newClient(address, { retries: 60, maxRetryTime: 5000 }).admin();
  await admin.connect();
  const topics = [{ topic, replicaAssignment: [{ partition: 0, replicas: [11] }] }];
  // It asks the broker that Metadata names as controller, and asks no other one if that has just died: until it is fenced,
  // it may be named, as by Kafka.
  const end = Date.now() + 30_000;
  for (let isMade = false; !isMade; await sleep(100)) {
    try {
      isMade = await admin.createTopics({ topics, timeout: 30_000 });
    } catch (error) {
      if (error.name !== "KafkaJSConnectionError" || Date.now() > end) throw error;
    }
  }
  await admin.disconnect();
}

if (process.argv[1].endsWith("kills.mjs")) {
  const [name, addresses, topic] = process.argv.slice(2);
  await { writeUntilToldToStop, createTopic }[name](addresses.split(","), topic);
}
