// A page without a browser: what `test_agui_npm.py` checks of the example's client. It prints one JSON value per line.
import { ThreadAgent } from "./thread_agent.mjs";

// `@ag-ui/client` cancels a stream that has failed, and lets that fail, too.
process.on("unhandledRejection", (error) => {
  if (error.message !== "terminated") throw error;
});
const [url, token] = process.argv.slice(2);
let cut = false; // whether the next POST loses its connection after the first text

async function fetchAndLose(input, init) {
  const response = await fetch(input, init);
  if (init.method !== "POST" || !cut) return response;
  cut = false;
  const reader = response.body.getReader();
  const body = new ReadableStream({
    async pull(controller) {
      const { value } = await reader.read();
      controller.enqueue(value);
      if (new TextDecoder().decode(value).includes("TEXT_MESSAGE_CONTENT")) {
        await reader.cancel();
        controller.error(new TypeError("terminated"));
      }
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

const make = () =>
  new ThreadAgent({ url, threadId: "from-npm", headers: { authorization: `Bearer ${token}` }, fetch: fetchAndLose });
const agent = make();
const say = (value) => console.log(JSON.stringify(value));
const texts = (of) => of.messages.filter((m) => ["user", "assistant"].includes(m.role) && m.content).map((m) => m.content);
const until = async (isTrue) => {
  const late = Date.now() + 60_000;
  while (!isTrue()) {
    if (Date.now() > late) throw new Error(`never: ${isTrue}, with ${JSON.stringify(agent.messages)}`);
    await new Promise((next) => setTimeout(next, 10));
  }
};
const ask = (content, more) => {
  agent.addMessage({ id: `page-${agent.messages.length}`, role: "user", content });
  return agent.runAgent(more);
};
const failures = [];
agent.subscribe({ onRunFailed: ({ error }) => void failures.push(error.message) });

agent.follow();
await ask("Go");
say(texts(agent)); // the background task is gated
await until(() => texts(agent).includes("It has ended."));
await until(() => !agent.isRunning);
say(texts(agent));

cut = true;
await ask("Write");
await until(() => texts(agent).at(-1)?.endsWith("the end."));
say(texts(agent));

await ask("Ask", { tools: [{ name: "pickColor", description: "Pick a color." }] });
const pending = agent.messages.at(-1).toolCalls[0];
agent.addMessage({ id: "result", role: "tool", toolCallId: pending.id, content: "blue" });
await agent.runAgent();
say([pending.function.name, texts(agent).at(-1)]);

const late = make(); // another page, or this one after a reload
late.follow();
await until(() => late.messages.length);
say(texts(late));
say(failures);
agent.leave();
late.leave();
