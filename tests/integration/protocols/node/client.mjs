// A STOMP client over WebSocket as a browser has it: subscribes with selectors, sends, acknowledges, prints what it saw as JSON.
//   node client.mjs URL
import { Client, ReconnectionTimeMode } from "@stomp/stompjs";
import { WebSocket } from "ws";

const url = process.argv[2];
const seen = { selected: [], bodies: [], redelivered: [], transacted: [], receipts: [], version: "", error: "" };
const client = new Client({
  webSocketFactory: () => new WebSocket(url, ["v12.stomp", "v11.stomp", "v10.stomp"]),
  reconnectDelay: 0,
  reconnectTimeMode: ReconnectionTimeMode.LINEAR,
  heartbeatIncoming: 1000,
  heartbeatOutgoing: 1000,
});

const receipt = (name) =>
  new Promise((done) => client.watchForReceipt(name, () => { seen.receipts.push(name); done(); }));
const until = async (condition) => { while (!condition()) await new Promise((done) => setTimeout(done, 5)); };

async function subscribe(destination, callback, headers = {}) {
  const name = `subscribed-${destination}-${headers.selector ?? ""}`;
  const confirmed = receipt(name);
  client.subscribe(destination, callback, { ...headers, receipt: name });
  await confirmed;
}

async function talk() {
  await subscribe("/topic/node.ticks", (frame) => seen.selected.push(frame.headers.price), { selector: "price > 20" });
  await subscribe("/topic/node.bytes", (frame) => seen.bodies.push(Array.from(frame.binaryBody)));
  for (const price of ["19", "20.5", "dear", "300"]) client.publish({ destination: "/topic/node.ticks", headers: { price } });
  client.publish({ destination: "/topic/node.bytes", binaryBody: new Uint8Array([0, 255, 0, 10]) });
  client.publish({ destination: "/topic/node.bytes", body: "grüße ".repeat(3) });
  let refused = false;
  await subscribe("/queue/node.work", (frame) => {
    if (!refused) { refused = true; frame.nack(); return; }
    seen.redelivered.push(frame.headers.redelivered);
    frame.ack();
  }, { ack: "client-individual" });
  client.publish({ destination: "/queue/node.work", body: "again" });
  await subscribe("/queue/node.paid", (frame) => seen.transacted.push(frame.body));
  const aborted = client.begin();
  client.publish({ destination: "/queue/node.paid", body: "no", headers: { transaction: aborted.id } });
  aborted.abort();
  const committed = client.begin();
  client.publish({ destination: "/queue/node.paid", body: "yes", headers: { transaction: committed.id } });
  committed.commit();
  await until(() => seen.selected.length === 2 && seen.bodies.length === 2 && seen.redelivered.length && seen.transacted.length);
  client.subscribe("/topic/node.ticks", () => {}, { selector: "price >" });
}

client.onConnect = (frame) => { seen.version = frame.headers.version; talk(); };
client.onStompError = (frame) => { seen.error = frame.headers.code; };
client.onWebSocketClose = () => { console.log(JSON.stringify(seen)); process.exit(0); };
client.activate();
