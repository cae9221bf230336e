// A chat-stream client on Node's own http: a stamp per event, JSON.parse of each, the text put together.
// Usage: sse_client.mjs URL STREAMS REQUESTS; each stream reads REQUESTS replies one after the other. Prints {"events"}.
import http from "node:http";

const [url, streams, requests] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
const body = JSON.stringify({ model: "bench", stream: true, messages: [] });
const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };

function readStream() {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", agent, headers }, (response) => {
      let pending = "", text = "", events = 0;
      const stamps = [];
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        const now = performance.now();
        const lines = (pending + piece).split("\n\n");
        pending = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
          const value = JSON.parse(line.slice(6));
          events++;
          const content = value.choices[0]?.delta.content;
          if (content) {
            stamps.push(now);
            text += content;
          }
        }
      });
      response.on("end", () => (text && response.statusCode === 200 ? resolve(events) : reject(new Error("empty"))));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function user() {
  let events = 0;
  for (let i = 0; i < requests; i++) events += await readStream();
  return events;
}

const counts = await Promise.all(Array.from({ length: streams }, user));
agent.destroy();
console.log(JSON.stringify({ events: counts.reduce((a, b) => a + b, 0) }));
