// STOMP 1.2 over WebSocket in a few lines: enough to log in, subscribe with a selector and show what comes.
const URL = "ws://127.0.0.1:61614";
const show = (id, text) => { document.getElementById(id).textContent = text; };
const escaped = (text) => text.replace(/[\\\n\r:]/g, (c) => ({ "\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c" })[c]);
const plain = (text) => text.replace(/\\[nrc\\]/g, (c) => ({ "\\n": "\n", "\\r": "\r", "\\c": ":", "\\\\": "\\" })[c]);

function frame(command, headers) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${escaped(String(value))}\n`);
  return `${command}\n${lines.join("")}\n\0`;
}

function parsed(text) {
  const [head, ...body] = text.replace(/^\n+/, "").split("\n\n");
  const [command, ...lines] = head.split("\n");
  const headers = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers[plain(line.slice(0, colon))] ??= plain(line.slice(colon + 1));
  }
  return { command, headers, body: body.join("\n\n") };
}

function add(headers, body) {
  const item = document.createElement("li");
  item.textContent = `${headers.destination}: ${JSON.stringify(headers)} ${body}`;
  document.getElementById("ticks").prepend(item);
}

let socket;
document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  socket?.close();
  document.getElementById("ticks").replaceChildren();
  socket = new WebSocket(URL, ["v12.stomp"]);
  const selector = document.getElementById("selector").value;
  let rest = "";
  socket.onopen = () => socket.send("CONNECT\naccept-version:1.2\nhost:localhost\n\n\0");
  socket.onclose = () => show("state", "not connected");
  socket.onmessage = async ({ data }) => {
    rest += typeof data === "string" ? data : await data.text();
    const frames = rest.split("\0");  // the bodies here hold no NUL
    rest = frames.pop();
    for (const { command, headers, body } of frames.map(parsed)) {
      if (command === "CONNECTED") {
        socket.send(frame("SUBSCRIBE", { id: 1, destination: "/topic/ticks.>", selector }));
        show("state", `subscribed: ${selector}`);
      } else if (command === "MESSAGE") {
        add(headers, body);
      } else if (command === "ERROR") {
        alert(headers.message);
      }
    }
  };
});
