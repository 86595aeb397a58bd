// An MQTT client that others wrote, MQTT.js: sessions that outlive a connection, retained messages, properties, filters by content.
//   node mqtt.mjs URL VERSION [CA FILE]
import { readFileSync } from "node:fs";
import mqtt from "mqtt";

const [url, versionText, authority] = process.argv.slice(2);
const protocolVersion = Number(versionText);
const five = protocolVersion === 5;
const base = `js/${protocolVersion}/${url.split(":")[0]}`;
const encrypted = authority ? { ca: readFileSync(authority) } : {};
const connect = (more) => mqtt.connectAsync(url, { protocolVersion, reconnectPeriod: 0, ...encrypted, ...more });
const session = { clientId: base, clean: false, ...(five ? { properties: { sessionExpiryInterval: 60 } } : {}) };
const seen = { present: [], messages: [], retained: [], properties: null, filtered: [], session: null };
const until = async (condition) => { while (!condition()) await new Promise((done) => setTimeout(done, 5)); };

const first = await connect({ ...session });
await first.subscribeAsync(`${base}/queue/#`, { qos: 2 });
await first.endAsync();

const writer = await connect({ clean: true });
for (const qos of [1, 2]) await writer.publishAsync(`${base}/queue/${qos}`, `${qos}`, { qos });
await writer.publishAsync(`${base}/kept/a`, "last", { qos: 1, retain: true });
await writer.publishAsync(`${base}/kept/b`, "gone", { qos: 1, retain: true });
await writer.publishAsync(`${base}/kept/b`, "", { qos: 1, retain: true });

const again = mqtt.connect(url, { protocolVersion, reconnectPeriod: 0, ...encrypted, ...session });
again.on("connect", (packet) => seen.present.push(packet.sessionPresent));
again.on("message", (topic, payload) => seen.messages.push(payload.toString()));
await until(() => seen.messages.length === 2);
await again.endAsync();

const reader = await connect({ clean: true });
reader.on("message", (topic, payload, packet) => {
  if (topic.includes("/kept/")) seen.retained.push([payload.toString(), packet.retain]);
  else if (topic.includes("/filter/")) seen.filtered.push(payload.toString());
  else seen.properties = packet.properties?.userProperties ?? {};
});
await reader.subscribeAsync(`${base}/kept/+`, { qos: 1 });
await until(() => seen.retained.length === 1);
await reader.subscribeAsync([`${base}/filter/+/?price>20`, `${base}/plain`], { qos: 1 });
if (five) {
  for (const price of ["19", "50"]) {
    await writer.publishAsync(`${base}/filter/x`, price, { qos: 1, properties: { userProperties: { price } } });
  }
  await until(() => seen.filtered.length === 1);
}
await writer.publishAsync(`${base}/plain`, "x", { qos: 2, ...(five ? { properties: { userProperties: { a: "b" } } } : {}) });
await until(() => seen.properties !== null);
await Promise.all([reader.endAsync(), writer.endAsync()]);
console.log(JSON.stringify(seen));
process.exit(0);
