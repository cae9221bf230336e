// A client of somebody else's making: Node's `openai` as it comes, told only where the server is. Prints what it got
// as one JSON line. node openai_client.js URL CASE
const { OpenAI } = require("openai");

const [url, name] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 3, timeout: 20000 });
const model = "sim-model";
const messages = [{ role: "system", content: "Be brief, and be it for more than one block of tokens." },
  { role: "user", content: "Hello" }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", function: { name: "weather", parameters } }];

async function refused(call) {
  try {
    await call();
    return null;
  } catch (e) {
    return { kind: e.constructor.name, status: e.status, code: e.code, type: e.type, param: e.param };
  }
}

const cases = {
  async models() {
    const names = [];
    for await (const m of client.models.list()) names.push(m.id);
    return names;
  },
  async chat() {
    const body = { model, messages, max_tokens: 20, seed: 4 };
    const whole = await client.chat.completions.create(body);
    let text = "", finish = null, usage = null, roles = 0;
    const stream = await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
    for await (const c of stream) {
      usage = c.usage ?? usage;
      for (const x of c.choices) {
        text += x.delta.content ?? "";
        roles += x.delta.role === "assistant";
        finish = x.finish_reason ?? finish;
      }
    }
    const helper = await client.beta.chat.completions.stream(body).finalChatCompletion();
    return { whole: whole.choices[0].message.content, text, helper: helper.choices[0].message.content, finish, roles,
      first: whole.usage, second: usage, id: whole.id };
  },
  async tools() {
    const body = { model, messages, tools, tool_choice: "required" };
    const whole = await client.chat.completions.create(body);
    const helper = await client.beta.chat.completions.stream(body).finalChatCompletion();
    const again = await client.chat.completions.create({ model, tools, messages: [...messages, whole.choices[0].message,
      { role: "tool", tool_call_id: whole.choices[0].message.tool_calls[0].id, content: "Rain." }] });
    return { whole: whole.choices[0].message.tool_calls[0].function, finish: helper.choices[0].finish_reason,
      streamed: helper.choices[0].message.tool_calls[0].function, before: whole.usage, after: again.usage };
  },
  async completions() {
    const body = { model, prompt: ["one", "two"], n: 2, max_tokens: 5 };
    const whole = await client.completions.create(body);
    const texts = ["", "", "", ""];
    for await (const c of await client.completions.create({ ...body, stream: true }))
      for (const x of c.choices) texts[x.index] += x.text;
    const ids = await client.completions.create({ model, prompt: [72, 105], max_tokens: 1, echo: true });
    return { whole: whole.choices.map((c) => c.text), texts, echo: ids.choices[0].text.slice(0, 2) };
  },
  async responses() {
    const first = await client.responses.create({ model, instructions: "Be brief.", input: "A question of some length.",
      max_output_tokens: 40 });
    let text = "", last = null;
    for await (const e of await client.responses.create({ model, instructions: "Be brief.", input: "And another?", stream: true,
      previous_response_id: first.id, max_output_tokens: 40 })) {
      if (e.type === "response.output_text.delta") text += e.delta;
      if (e.response) last = e.response;
    }
    const stored = await client.responses.retrieve(last.id);
    const call = await client.responses.create({ model, input: "Weather?", tool_choice: "required",
      tools: [{ type: "function", name: "weather", parameters, strict: false }] });
    return { first: first.output_text, previous: last.previous_response_id === first.id, text, stored: stored.output[0].content[0].text,
      total: first.usage.total_tokens, usage: last.usage, call: call.output[0].name,
      unknown: await refused(() => client.responses.create({ model, input: "x", previous_response_id: "resp_none" })) };
  },
  // In the background: asked for until it is through, and read once more from the middle.
  async background() {
    const body = { model, input: "Take your time.", max_output_tokens: 20, background: true };
    let response = await client.responses.create(body);
    const first = response.status;
    while (response.status === "queued" || response.status === "in_progress") response = await client.responses.retrieve(response.id);
    let text = "", id = null;
    for await (const e of await client.responses.create({ ...body, stream: true })) {
      if (e.response) id = e.response.id;
      if (e.type === "response.output_text.delta") text += e.delta;
    }
    const again = await client.get(`/responses/${id}`, { query: { stream: true, starting_after: 1 }, stream: true });
    const numbers = [];
    for await (const e of again) numbers.push(e.sequence_number);
    const late = await refused(() => client.post(`/responses/${response.id}/cancel`));
    return { first, status: response.status, whole: response.output_text ?? response.output[0].content[0].text, text, numbers, late };
  },
  // A client's loop: the calls of streamed answers are run here, until there is an answer in words.
  async toolLoop() {
    const history = [...messages];
    const seen = [];
    for (let round = 0; round < 9; round++) {
      const call = { id: "", name: "", arguments: "" };
      let text = "", pieces = 0, finish = null;
      for await (const c of await client.chat.completions.create({ model, messages: history, tools, stream: true }))
        for (const x of c.choices) {
          text += x.delta.content ?? "";
          finish = x.finish_reason ?? finish;
          for (const t of x.delta.tool_calls ?? []) {
            call.id += t.id ?? "";
            call.name += t.function?.name ?? "";
            call.arguments += t.function?.arguments ?? "";
            pieces++;
          }
        }
      seen.push({ name: call.name, finish, pieces, keys: call.arguments && Object.keys(JSON.parse(call.arguments)) });
      if (finish !== "tool_calls") return { seen, text };
      history.push({ role: "assistant", content: null, tool_calls: [{ id: call.id, type: "function",
        function: { name: call.name, arguments: call.arguments } }] });
      history.push({ role: "tool", tool_call_id: call.id, content: "Rain, and more of it." });
    }
    return { seen };
  },
  // The same over Responses: functions are run here, the chain is the server's; then tools that the server runs.
  async responsesLoop() {
    const own = [{ type: "function", name: "weather", parameters, strict: false }];
    let r = await client.responses.create({ model, input: "Weather?", tools: own });
    let rounds = 0;
    while (r.output.at(-1).type === "function_call" && rounds++ < 9)
      r = await client.responses.create({ model, tools: own, previous_response_id: r.id,
        input: [{ type: "function_call_output", call_id: r.output.at(-1).call_id, output: "Rain." }] });
    const types = [];
    let last = null;
    for await (const e of await client.responses.create({ model, input: "Find out.", stream: true,
      tools: [{ type: "web_search_preview" }] })) {
      if (e.type.includes("web_search_call")) types.push(e.type);
      if (e.response) last = e.response;
    }
    return { rounds, text: r.output_text, types, output: last.output.map((i) => i.type),
      turns: last.usage.input_tokens_details.input_tokens_per_turn };
  },
  async errors() {
    return [await refused(() => client.chat.completions.create({ model: "other", messages })),
      await refused(() => client.chat.completions.create({ model, messages, max_tokens: 0 })),
      await refused(() => client.completions.create({ model, prompt: "x", logprobs: 30 }))];
  },
  async retry() {
    const said = await client.chat.completions.create({ model, messages, max_tokens: 3 });
    return said.choices[0].message.content.length;
  },
  async broken() {
    return refused(async () => {
      for await (const _ of await client.chat.completions.create({ model, messages, stream: true })) void _;
    });
  },
};

cases[name]().then((v) => console.log(JSON.stringify(v)), (e) => { console.error(e); process.exit(1); });
