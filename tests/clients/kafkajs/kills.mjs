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
  const replicaAssignment = [{ partition: 0, replicas: [11] }];
  await admin.createTopics({ topics: [{ topic, replicaAssignment }], timeout: 30_000 });
  await admin.disconnect();
}

if (process.argv[1].endsWith("kills.mjs")) {
  const [name, addresses, topic] = process.argv.slice(2);
  await { writeUntilToldToStop, createTopic }[name](addresses.split(","), topic);
}
