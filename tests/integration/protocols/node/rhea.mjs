// What rhea sees of a broker: node rhea.mjs PORT prints JSON.
import rhea from "rhea";

const port = Number(process.argv[2]);
const large = "x".repeat(200_000);

// The next event of this name.
function once(emitter, name) {
  return new Promise((resolve, reject) => {
    emitter.once(name, resolve);
    emitter.once(name === "rejected" ? "accepted" : "rejected", (context) => reject(new Error(name + " expected")));
  });
}

async function connected(id) {
  const container = rhea.create_container({ id });
  const connection = container.connect({ host: "127.0.0.1", port, reconnect: false });
  await once(connection, "connection_open");
  return connection;
}

async function ended(connection) {
  const closed = once(connection, "connection_close");
  connection.close();
  await closed;
}

async function opened(link, name) {
  await once(link, name);
  return link;
}

const receiver = (connection, options) => opened(connection.open_receiver(options), "receiver_open");

async function sender(connection, target) {
  const link = connection.open_sender(target);
  await once(link, "sendable");
  return link;
}

async function sent(link, message) {
  const answer = once(link, "accepted");
  link.send(message);
  await answer;
}

// A message and what is said of it.
async function taken(link, outcome) {
  const context = await once(link, "message");
  context.delivery[outcome]();
  return context.message;
}

const seen = {};
const connection = await connected("rhea");

// A queue: durable messages, every outcome, a message of many frames.
const producer = await sender(connection, "queue://rhea.work");
await sent(producer, { durable: true, body: "first", application_properties: { n: 1, text: "é" } });
const consumer = await receiver(connection, { source: "queue://rhea.work", autoaccept: false, credit_window: 0 });
consumer.add_credit(1);
const first = await taken(consumer, "release");
consumer.add_credit(1);
const again = await taken(consumer, "accept");
seen.first = [first.body, first.application_properties.n, first.application_properties.text, again.body];
await sent(producer, { body: "bad" });
consumer.add_credit(1);
await taken(consumer, "reject");
await sent(producer, { body: large });
consumer.add_credit(1);
seen.large = (await taken(consumer, "accept")).body === large;

// Topics with a selector, settled by the sender.
const filter = rhea.filter.selector("price > 20");
const cheap = await receiver(connection, { source: { address: "topic://rhea.ticks", filter }, credit_window: 10 });
const ticks = await sender(connection, { target: "topic://rhea.ticks", snd_settle_mode: 1 });
const got = once(cheap, "message");
for (const price of [10, 50]) ticks.send({ body: String(price), application_properties: { price } });
seen.filtered = (await got).message.body;

// A durable subscription outlives its connection.
const durable = { name: "keeps", source: { address: "topic://rhea.news", durable: 2, expiry_policy: "never" } };
const reader = await connected("rhea reader");
const kept = await receiver(reader, durable);
const detached = once(kept, "receiver_close");
kept.detach();
await Promise.race([detached, new Promise((resolve) => setTimeout(resolve, 500))]);
await ended(reader);
const news = await sender(connection, "topic://rhea.news");
await sent(news, { durable: true, body: "while away" });
const returned = await connected("rhea reader");
const waiting = returned.open_receiver(durable);
seen.kept = (await once(waiting, "message")).message.body;

// What is refused is said.
const refused = connection.open_receiver("queue:///");
seen.refused = (await once(refused, "receiver_error")).receiver.error.condition;

await ended(returned);
await ended(connection);
console.log(JSON.stringify(seen));
