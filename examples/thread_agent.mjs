// A client for AG-UI that follows its thread: `npm install @ag-ui/client`.
//
// `HttpAgent` has the events of its own runs only. This one also has what happens between them, the messages of a thread
// that exists, and the rest of a run whose connection was lost:
//
//     const agent = new ThreadAgent({ url: "/agent/", threadId, headers });
//     agent.follow();
//     agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Hello" });
//     await agent.runAgent();
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

export class ThreadAgent extends HttpAgent {
  constructor(config) {
    super(config);
    this.subscribe({
      // A snapshot has all messages, in order; the default keeps the order of those that the client has.
      onMessagesSnapshotEvent: ({ event }) => ({ messages: event.messages, stopPropagation: true }),
      // Between two runs of the thread nothing runs, although the stream stays open.
      onRunStartedEvent: () => void (this.isRunning = true),
      onRunFinishedEvent: () => void (this.isRunning = false),
      onRunErrorEvent: () => void (this.isRunning = false),
    });
  }

  /** Follow the thread until `leave`, between the runs, and again after each lost connection. */
  async follow() {
    for (this.stays = true; this.stays; await new Promise((next) => (setTimeout(next, 500), (this.goOn = next)))) {
      if (!this.ownRuns) await this.connectAgent().catch(() => {});
    }
  }

  leave() {
    this.stays = false;
    this.stream?.abort();
  }

  connect(input) {
    this.stream = new AbortController();
    const url = `${this.url}?threadId=${encodeURIComponent(input.threadId)}`;
    const given = { headers: this.headers, signal: this.stream.signal };
    return transformHttpEventStream(runHttpRequest(() => this.fetch(url, given)));
  }

  async runAgent(parameters, subscriber) {
    this.ownRuns = (this.ownRuns ?? 0) + 1;
    this.stream?.abort();
    await this.detachActiveRun();
    try {
      return await super.runAgent(parameters, subscriber);
    } catch (error) {
      if (!this.stays || error.status) throw error; // refused
      return { result: undefined, newMessages: [] }; // the connection was lost: the thread has the rest
    } finally {
      this.ownRuns -= 1;
      this.goOn?.();
    }
  }
}
