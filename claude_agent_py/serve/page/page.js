"use strict";
// Everything that comes from a session is inserted as text, never as HTML.
const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

// The token is in the fragment of the address, which browsers send to nobody. A tab keeps it across reloads.
const place = new URLSearchParams(location.hash.slice(1).replace(/^([^=&]+)$/, "token=$1"));
if (place.get("token")) sessionStorage.setItem("token", place.get("token"));
const token = sessionStorage.getItem("token") || "";
const isName = (id) => /[^.]/.test(id); // else it would lead out of the address of the sessions
let current = isName(place.get("session") || "") ? place.get("session") : "";
const address = (id) => (id ? `#session=${encodeURIComponent(id)}` : location.pathname);
history.replaceState(null, "", address(current));

async function call(method, path, body, read = (answer) => answer.json()) {
  const answer = await fetch(`api/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (answer.ok) return read(answer);
  const found = await answer.json().catch(() => ({}));
  throw new Error(found.error || `the server answered ${answer.status}`);
}

function complain(error) {
  $("problem").textContent = error ? String(error.message || error) : "";
  $("problem").hidden = !error;
}

// Markdown, as far as answers use it -----------------------------------------------------------------------------

// A text may be hostile: no pattern takes more than linear time.
function inline(parent, text) {
  const pattern = /(`{1,3})([\s\S]+?)\1|\*\*([\s\S]+?)\*\*|\*([^\s*][\s\S]*?)\*|\[([^[\]]+)\]\((https?:\/\/[^\s()]+)\)/g;
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    parent.append(text.slice(end, found.index));
    end = found.index + found[0].length;
    if (found[2] !== undefined) parent.append(make("code", "", found[2]));
    else if (found[5] !== undefined) {
      const link = make("a", "", found[5]);
      link.href = found[6];
      link.rel = "noreferrer noopener";
      link.target = "_blank";
      parent.append(link);
    } else {
      const element = make(found[3] !== undefined ? "strong" : "em");
      inline(element, found[3] ?? found[4]);
      parent.append(element);
    }
  }
  parent.append(text.slice(end));
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

function markdown(parent, text) {
  parent.replaceChildren();
  const lines = text.split("\n");
  let paragraph = null;
  let list = null;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const fence = line.match(/^\s*(```+|~~~+)/);
    const item = line.match(/^\s*(?:([-*+])|\d+[.)])\s+(.*)/);
    const heading = line.match(/^#{1,6}\s+(.*)/);
    const next = lines[i + 1] || "";
    const isTable = line.includes("|") && next.includes("|") && next.includes("-") && /^[\s:|-]+$/.test(next);
    if (fence) {
      const code = [];
      while (++i < lines.length && !lines[i].trim().startsWith(fence[1])) code.push(lines[i]);
      const block = make("pre");
      block.append(make("code", "", code.join("\n")));
      parent.append(block);
      paragraph = list = null;
    } else if (heading) {
      const title = make("h3");
      inline(title, heading[1]);
      parent.append(title);
      paragraph = list = null;
    } else if (isTable) {
      const table = make("table");
      const rows = [line];
      for (i += 1; lines[i + 1] && lines[i + 1].includes("|"); i++) rows.push(lines[i + 1]);
      rows.forEach((row, number) => {
        const line = make("tr");
        for (const cell of cells(row)) inline(line.appendChild(make(number ? "td" : "th")), cell);
        table.append(line);
      });
      parent.append(table);
      paragraph = list = null;
    } else if (item) {
      const kind = item[1] ? "UL" : "OL";
      if (!list || list.tagName !== kind) parent.append((list = make(kind)));
      inline(list.appendChild(make("li")), item[2]);
      paragraph = null;
    } else if (!line.trim()) {
      paragraph = list = null;
    } else {
      if (list && /^\s/.test(line)) {
        list.lastChild.append(" ");
        inline(list.lastChild, line.trim());
        continue;
      }
      list = null;
      if (paragraph) paragraph.append("\n");
      else parent.append((paragraph = make("p")));
      inline(paragraph, line);
    }
  }
}

// The conversation ------------------------------------------------------------------------------------------------

let view; // what is shown of the current session
const fresh = () => ({
  prompts: new Map(), messages: new Map(), calls: new Map(), tasks: new Map(), questions: new Map(), notes: new Set(),
  turns: new Map(), cost: 0, isRunning: false, refused: null, // the text of the last answer that is an error of the API
  shown: null, // the task whose output is shown
});

function follow(end) {
  const log = $("log");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  end();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

const put = (element) => follow(() => $("log").append(element));

function clear() {
  view = fresh();
  for (const id of ["log", "cards", "tasks", "todo"]) $(id).replaceChildren();
  $("todo-section").hidden = $("output-section").hidden = true;
  $("no-tasks").hidden = false;
  $("cost").textContent = "";
  setRunning(false);
}

function setRunning(isRunning) {
  view.isRunning = isRunning;
  $("stop").hidden = !isRunning;
  $("state").textContent = isRunning ? "working…" : "";
}

function note(text, isBad, key) {
  if (key && view.notes.has(key)) return;
  if (key) view.notes.add(key);
  if ($("log").lastElementChild?.textContent === text) return; // of the turn, the prompt and the process
  put(make("p", isBad ? "note bad" : "note", text));
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content || []).map((block) => (block.type === "text" ? block.text : `[${block.type}]`)).join("\n");
}

function messageOf(id) {
  let shown = view.messages.get(id);
  if (!shown) {
    shown = { parts: make("div"), live: make("div", "answer"), thinking: "", text: "", isDue: false };
    const element = make("article");
    element.setAttribute("aria-label", "Answer");
    element.append(shown.parts, shown.live);
    put(element);
    view.messages.set(id, shown);
  }
  return shown;
}

function addDelta(id, kind, delta) {
  const shown = messageOf(id);
  shown[kind] += delta;
  if (shown.isDue) return;
  shown.isDue = true;
  requestAnimationFrame(() => follow(() => {
    shown.isDue = false;
    if (shown.text) markdown(shown.live, shown.text);
    else if (shown.thinking) shown.live.replaceChildren(make("p", "note", "thinking…"));
  }));
}

// What the API broke off comes again, as another message.
function dropLive() {
  for (const [id, shown] of view.messages) {
    shown.text = shown.thinking = "";
    shown.live.replaceChildren();
    if (shown.parts.childNodes.length) continue;
    shown.live.parentElement.remove();
    view.messages.delete(id);
  }
  for (const [id, shown] of view.calls) {
    if (shown.isOpen !== undefined) continue;
    shown.element.remove();
    view.calls.delete(id);
  }
}

function addMessage(fact) {
  if (fact.agent || !(fact.content || []).length) return;
  const shown = messageOf(fact.id);
  follow(() => {
    shown.text = shown.thinking = "";
    shown.live.replaceChildren();
    for (const block of fact.content) {
      if (block.type === "text") {
        markdown(shown.parts.appendChild(make("div", fact.error ? "answer note bad" : "answer")), block.text);
        if (fact.error) view.refused = block.text;
      } else if (block.type === "thinking" && block.thinking) {
        const details = make("details", "thinking");
        details.append(make("summary", "", "Thinking"), make("p", "note", block.thinking));
        shown.parts.append(details);
      }
    }
  });
}

function callOf(id, name) {
  let shown = view.calls.get(id);
  if (!shown) {
    shown = { element: make("details", "call"), title: make("span"), status: make("span", "status"), input: make("pre"),
      result: make("pre"), text: "" };
    shown.title.textContent = name || "tool";
    shown.result.hidden = true;
    const summary = make("summary");
    summary.append(shown.title, shown.status);
    shown.element.append(summary, shown.input, shown.result);
    view.calls.set(id, shown);
    put(shown.element);
  }
  return shown;
}

function addCall(fact) {
  const shown = callOf(fact.id, fact.call.name);
  const input = fact.call.input || {};
  const about = ["description", "command", "file_path", "pattern", "url", "query"].map((name) => input[name]).find((value) => typeof value === "string" && value) || "";
  shown.title.textContent = `${fact.agent ? "↳ " : ""}${fact.display_name || fact.call.name} ${about.split("\n")[0].slice(0, 120)}`;
  shown.input.textContent = JSON.stringify(input, null, 2);
  shown.status.textContent = "pending";
  shown.agent = fact.agent || "";
  shown.isOpen = true;
}

function endCall(fact) {
  const shown = callOf(fact.id, fact.call.name);
  if (!shown.input.textContent) addCall(fact);
  shown.status.textContent = fact.status;
  shown.isOpen = false;
  shown.element.classList.add(fact.status);
  follow(() => {
    shown.result.textContent = textOf(fact.result.content).slice(0, 50000);
    shown.result.hidden = !shown.result.textContent;
  });
}

// Calls without a result end with the turn that made them, and all of them with the process.
function loseCalls(isAll) {
  for (const shown of view.calls.values()) {
    if (!shown.isOpen || (shown.agent && !isAll)) continue;
    shown.isOpen = false;
    shown.status.textContent = "cancelled";
    shown.element.classList.add("cancelled");
  }
}

// Tasks -----------------------------------------------------------------------------------------------------------

function taskOf(fact) {
  const id = fact.task_id || fact.task;
  let task = view.tasks.get(id);
  if (!task) {
    task = { id, element: make("li"), title: make("div"), about: make("div", "dim"), children: make("ul"), status: "running" };
    const buttons = make("div", "buttons");
    task.output = make("button", "link", "Output");
    task.stop = make("button", "link", "Stop");
    task.output.onclick = () => showOutput(task);
    task.stop.onclick = () => call("POST", `sessions/${encodeURIComponent(current)}/tasks/${encodeURIComponent(id)}/stop`, {}).catch(complain);
    buttons.append(task.output, task.stop);
    task.element.append(task.title, task.about, buttons, task.children);
    const parent = view.tasks.get(fact.agent);
    (parent ? parent.children : $("tasks")).append(task.element);
    view.tasks.set(id, task);
    $("no-tasks").hidden = true;
  }
  return task;
}

const ENDED = new Set(["completed", "failed", "stopped"]);

function showTask(task) {
  const mark = { completed: "✓", failed: "✗", stopped: "■", awaiting_user: "?", paused: "‖" }[task.status] || "…";
  task.title.textContent = `${mark} ${task.name || task.id}`;
  task.about.textContent = ENDED.has(task.status) ? `${task.status}${task.summary ? `: ${task.summary.slice(0, 200)}` : ""}` : task.activity || task.status;
  task.stop.hidden = ENDED.has(task.status);
}

function onTask(fact) {
  const task = taskOf(fact);
  const kind = fact.fact.slice("task_".length);
  const outcome = fact.outcome || fact;
  if (fact.description && kind !== "progressed") task.name = fact.description;
  if (kind === "started" || kind === "reopened") task.status = "running";
  else if (kind === "progressed") task.activity = fact.activity || fact.description || task.activity;
  else if (kind === "status_changed") task.status = fact.new;
  else if (kind === "asked") task.status = "awaiting_user";
  else if (kind === "ended" || kind === "finished" || kind === "revised") {
    task.status = outcome.status || task.status;
    task.summary = outcome.summary || outcome.failure_reason || task.summary;
  }
  showTask(task);
}

async function showOutput(task) {
  view.shown = task;
  const isOver = ENDED.has(task.status);
  try {
    const found = await call("GET", `sessions/${encodeURIComponent(current)}/tasks/${encodeURIComponent(task.id)}/output`);
    if (view.shown !== task) return; // another one was chosen meanwhile
    $("output-title").textContent = `Output of ${task.name || task.id}`;
    if ($("output").textContent !== found.text || $("output-section").hidden) {
      $("output").textContent = found.text || (isOver ? "(nothing)" : "(nothing yet)");
      $("output-section").hidden = false;
      $("output").scrollTop = $("output").scrollHeight;
    }
    if (!isOver) setTimeout(() => view.shown === task && showOutput(task), 1000);
  } catch (error) {
    complain(error);
  }
}

function showTodo(items) {
  $("todo-section").hidden = !items.length;
  $("todo").replaceChildren(...items.map((item) => {
    const mark = { completed: "✓", in_progress: "▸" }[item.status] || "○";
    return make("li", item.status === "completed" ? "done" : "", `${mark} ${item.text}`);
  }));
}

// Questions -------------------------------------------------------------------------------------------------------

function showDiff(lines) {
  const block = make("pre", "diff");
  for (const line of lines) {
    const kind = line.startsWith("+") ? "add" : line.startsWith("-") ? "cut" : "";
    block.append(make("span", kind, line || " "));
  }
  return block;
}

function ask(event) {
  if (view.questions.has(event.question)) return;
  const card = make("form", "card");
  card.setAttribute("aria-label", event.title);
  card.append(make("h3", "", event.title));
  if (event.markdown) markdown(card.appendChild(make("div", "answer")), event.markdown);
  for (const line of event.lines) card.append(make("pre", "", line));
  if (event.diff.length) card.append(showDiff(event.diff));
  const buttons = make("div", "buttons");
  const answer = async (body) => {
    for (const button of buttons.children) button.disabled = true;
    try {
      await call("POST", `sessions/${encodeURIComponent(current)}/answers/${event.question}`, body);
      complain(null);
    } catch (error) {
      complain(error);
      for (const button of buttons.children) button.disabled = false;
    }
  };
  const button = (text, isMain, body) => {
    const element = make("button", isMain ? "main" : "", text);
    element.type = "button";
    element.onclick = () => answer(typeof body === "function" ? body() : body);
    buttons.append(element);
    return element;
  };
  if (event.kind === "permission" || event.kind === "plan") {
    button("Allow", true, { decision: "allow" });
    if (event.always) button(`Always: ${event.always}`.slice(0, 120), false, { decision: "always" });
    button("Deny", false, { decision: "deny" });
  } else if (event.steps.length) {
    const fields = event.steps.map((step, number) => addStep(card, step, `${event.question}-${number}`, event.title));
    button("Answer", true, () => ({ answers: fields.map((read) => read()) }));
    button("Skip", false, { decision: "deny" });
  } else {
    const fields = event.form.map((field) => addField(card, field));
    button("Accept", true, () => ({ action: "accept", content: Object.fromEntries(fields.map((read) => read()).filter((pair) => pair[1] !== "")) }));
    button("Decline", false, { decision: "deny" });
  }
  card.onsubmit = (submit) => {
    submit.preventDefault();
    buttons.firstChild.click();
  };
  card.append(buttons);
  $("cards").append(card);
  view.questions.set(event.question, card);
}

function addStep(card, step, name, title) {
  const group = make("fieldset");
  group.setAttribute("aria-label", step.text);
  if (step.text !== title) group.append(make("legend", "", step.text));
  const boxes = step.options.map((option) => {
    const label = make("label");
    const box = make("input");
    box.type = step.many ? "checkbox" : "radio";
    box.name = name;
    box.value = option.label;
    label.append(box, `${option.label}${option.text ? `: ${option.text}` : ""}`);
    group.append(label);
    return box;
  });
  const own = make("input");
  own.placeholder = "in your own words";
  own.setAttribute("aria-label", `${step.text} In your own words`);
  group.append(own);
  card.append(group);
  return () => {
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    if (own.value) chosen.push(own.value);
    return step.many ? chosen : chosen[chosen.length - 1] ?? null;
  };
}

function addField(card, field) {
  const label = make("label", "", `${field.title}${field.required ? " *" : ""}`);
  const input = make(field.choices.length ? "select" : "input");
  for (const choice of field.choices) input.append(make("option", "", String(choice)));
  if (field.type === "boolean") input.type = "checkbox";
  if (field.type === "number" || field.type === "integer") input.type = "number";
  label.append(input);
  card.append(label);
  const read = () => (field.type === "boolean" ? input.checked : input.type === "number" && input.value !== "" ? Number(input.value) : input.value);
  return () => [field.name, read()];
}

function settle(event) {
  const card = view.questions.get(event.question);
  if (!card) return;
  const hadFocus = card.contains(document.activeElement);
  card.remove();
  view.questions.set(event.question, make("form"));
  if (hadFocus) $("text").focus();
}

// Events ----------------------------------------------------------------------------------------------------------

const ON_FACT = {
  prompt_sent(fact) {
    if (view.prompts.has(fact.id)) return;
    const bubble = make("article", "user", textOf(fact.content));
    bubble.setAttribute("aria-label", "You");
    view.prompts.set(fact.id, bubble);
    put(bubble);
    if ($("title").dataset.is === "new") setTitle(textOf(fact.content));
  },
  message_added: addMessage,
  call_started: addCall,
  call_running: (fact) => (callOf(fact.id).status.textContent = "running"),
  call_progressed(fact) {
    const done = fact.total ? `${Math.round((100 * fact.progress) / fact.total)} %` : String(fact.progress);
    callOf(fact.id).status.textContent = `${done} ${fact.text || ""}`.slice(0, 200);
  },
  call_ended: endCall,
  turn_started() {
    loseCalls(false);
    setRunning(true);
  },
  turn_ended(fact) {
    setRunning(false);
    if (fact.cost_usd && !view.turns.has(fact.id)) {
      view.turns.set(fact.id, fact.cost_usd);
      view.cost += fact.cost_usd;
      $("cost").textContent = `$${view.cost.toFixed(view.cost < 1 ? 4 : 2)}`;
    }
    if (fact.status === "cancelled") note("Stopped.", false, fact.id);
    else if (fact.status === "error" && fact.error && fact.error !== view.refused) note(fact.error, true, fact.id);
  },
  request_retried(fact) {
    dropLive();
    note(`The API refused a request (${fact.error || fact.error_status}); it is sent again.`, false);
  },
  fault: (fact) => note(`The CLI wrote a line that cannot be read: ${fact.error}`, true),
};

const ON_EVENT = {
  reset: clear,
  fact({ fact }) {
    if (fact.fact.startsWith("task_")) onTask(fact);
    else if (ON_FACT[fact.fact]) ON_FACT[fact.fact](fact);
  },
  text: (event) => addDelta(event.message, "text", event.delta),
  reasoning: (event) => addDelta(event.message, "thinking", event.delta),
  call: (event) => (callOf(event.call, event.name).status.textContent = "…"),
  arguments(event) {
    const shown = callOf(event.call);
    shown.input.textContent = shown.text += event.delta;
  },
  question: ask,
  question_settled: settle,
  todo: (event) => showTodo(event.items),
  run_ended(event) {
    if (event.status === "error" && event.text !== view.refused) note(event.error, true, event.prompt);
    refresh(); // the session may have a title now
  },
  closed(event) {
    loseCalls(true);
    setRunning(false);
    for (const id of view.questions.keys()) settle({ question: id });
    if (event.error) note(event.error, true);
  },
};

// An event that cannot be shown is skipped: read again, it would fail again.
function take(data) {
  try {
    const event = JSON.parse(data);
    if (ON_EVENT[event.type]) ON_EVENT[event.type](event);
  } catch (error) {
    complain(error);
  }
}

let reading = null; // aborts the stream that is read

async function read(id, signal) {
  let last = "";
  for (let pause = 250; !signal.aborted; ) {
    try {
      const headers = { authorization: `Bearer ${token}` };
      if (last) headers["last-event-id"] = last;
      const answer = await fetch(`api/sessions/${encodeURIComponent(id)}/events`, { headers, signal });
      if (!answer.ok) throw Object.assign(new Error((await answer.json()).error), { isFinal: answer.status < 500 });
      complain(null);
      pause = 250;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).replaceAll("\r", "").split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = { data: "", id: "" };
          for (const line of block.split("\n")) {
            const [, name, text] = line.match(/^(\w*):? ?(.*)$/s) || [];
            if (name in fields) fields[name] += text;
          }
          if (signal.aborted) return;
          if (fields.data) take(fields.data);
          if (fields.id) last = fields.id;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      complain(error.isFinal ? error : "The server cannot be reached; trying again.");
      if (error.isFinal) return;
    }
    await new Promise((wake) => setTimeout(wake, pause));
    pause = Math.min(pause * 2, 5000);
  }
}

// Sessions --------------------------------------------------------------------------------------------------------

let listed = [];

function setTitle(text, isNew) {
  $("title").textContent = text.split("\n")[0].slice(0, 120);
  $("title").dataset.is = isNew ? "new" : "";
  document.title = `${$("title").textContent} – Claude Code`;
}

function enter(id) {
  current = id;
  making = null;
  if (reading) reading.abort();
  reading = null;
  clear();
  complain(null);
  history.replaceState(null, "", address(id));
  const known = listed.find((session) => session.id === id);
  setTitle((known && known.title) || "New session", !(known && known.title));
  $("timeline").hidden = !id;
  if (id) {
    reading = new AbortController();
    read(id, reading.signal);
  }
  showList();
  $("sessions").classList.remove("open");
  $("text").focus();
}

function showList() {
  const wanted = $("search").value.toLowerCase();
  const shown = listed.filter((session) => `${session.title || ""} ${session.cwd || ""}`.toLowerCase().includes(wanted));
  $("list").replaceChildren(...shown.slice(0, 200).map((session) => {
    const button = make("button", session.state, session.title || "New session");
    button.title = session.cwd || "";
    if (session.state === "elsewhere") button.append(make("span", "dim", " (open in another program)"));
    button.setAttribute("aria-current", String(session.id === current));
    button.onclick = () => enter(session.id);
    const item = make("li");
    item.append(button);
    return item;
  }));
}

async function refresh() {
  try {
    listed = await call("GET", "sessions");
    listed.sort((one, other) => (other.changed_at || Infinity) - (one.changed_at || Infinity));
    showList();
  } catch (error) {
    complain(error);
  }
}

let making = null; // the session that is made for what is shown: further prompts wait for it, too

async function makeSession() {
  const here = view;
  try {
    const made = await call("POST", "sessions", {});
    if (view === here) enter(made.id); // else another one was chosen meanwhile
    return made.id;
  } finally {
    if (view === here) making = null;
  }
}

$("composer").onsubmit = async (event) => {
  event.preventDefault();
  const text = $("text").value;
  if (!text.trim()) return;
  $("text").value = ""; // at once: another Enter would send it again
  try {
    const id = current || (await (making ??= makeSession()));
    await call("POST", `sessions/${encodeURIComponent(id)}/prompts`, { text });
    complain(null);
    refresh();
  } catch (error) {
    $("text").value ||= text;
    complain(error);
  }
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
$("text").oninput = () => ($("text").rows = Math.min(10, $("text").value.split("\n").length));
$("stop").onclick = () => call("POST", `sessions/${encodeURIComponent(current)}/stop`, {}).catch(complain);
$("timeline").onclick = async () => {
  const tab = window.open("", "_blank"); // at once: browsers block a window that opens later
  try {
    const page = await call("GET", `sessions/${encodeURIComponent(current)}/timeline`, undefined, (answer) => answer.blob());
    tab.location = URL.createObjectURL(page);
  } catch (error) {
    if (tab) tab.close();
    complain(error);
  }
};
$("new").onclick = () => enter("");
$("search").oninput = showList;
$("show").onclick = () => $("sessions").classList.add("open");
$("hide").onclick = () => $("sessions").classList.remove("open");
setInterval(() => document.hidden || refresh(), 5000);

enter(current);
refresh().then(() => {
  const known = listed.find((session) => session.id === current);
  if (known && known.title) setTitle(known.title);
  document.body.dataset.ready = "yes";
});
