"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["run", "turn", "model", "tool", "waiting", "hook", "subagent", "task", "child"];
const LABELS = {run: "runs", turn: "turns", model: "model", tool: "tools", waiting: "waiting for people", hook: "hooks", subagent: "subagents", task: "tasks", child: "child agents"};
const TASKS = new Set(["subagent", "task", "child"]);
const $ = id => document.getElementById(id);
const make = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const spans = data.spans.map((s, i) => ({i, id: s[0], kind: KINDS[s[1]], name: s[2], parent: s[3], agent: s[4], start: s[5], end: s[6] === null ? null : s[5] + s[6], status: s[7], tokens: s[8], cost: s[9], more: s[10] || {}, links: s[11] || []}));
const byId = new Map(spans.map(s => [s.id, s]));
const total = Math.max(1e-6, data.duration);
const endOf = s => s.end === null ? Math.max(s.start, total) : s.end;

// Text ------------------------------------------------------------------------------------------------------------
const round = (n, d) => n.toLocaleString("en-US", {maximumFractionDigits: d});
const two = (n, base, big, small) => { const all = Math.round(n), rest = all % base; return (all - rest) / base + big + (rest ? " " + rest + small : ""); };
const time = s => s < 0.001 ? round(s * 1e6, 0) + " µs" : s < 0.9995 ? round(s * 1e3, s < 0.1 ? 1 : 0) + " ms" : s < 60 ? round(s, s < 10 ? 2 : 1) + " s" : s < 3600 ? two(s, 60, " min", " s") : s < 86400 ? two(s / 60, 60, " h", " min") : two(s / 3600, 24, " d", " h");
const money = c => c === null || c === undefined ? "–" : "$" + (c >= 1 ? c.toFixed(2) : c.toFixed(4));
const count = n => n >= 1e6 ? round(n / 1e6, 1) + " M" : n >= 1e4 ? round(n / 1e3, 0) + " k" : round(n, 0);
const sum = t => t ? t[0] + t[1] + t[2] + t[3] : 0;
const agentName = a => data.agents[a] || a || "main";
const isBad = s => s.status === "error" || s.status === "denied";

// Colours ---------------------------------------------------------------------------------------------------------
let colours = {};
const readColours = () => { const style = getComputedStyle(document.documentElement); colours = Object.fromEntries([...KINDS, "bg", "panel", "text", "dim", "line", "stripe", "accent", "bad", "ink"].map(n => [n, style.getPropertyValue("--" + n).trim()])); };
const setTheme = dark => { document.documentElement.dataset.theme = dark ? "dark" : "light"; readColours(); paintDots(); };
const paintDots = () => document.querySelectorAll("[data-kind]").forEach(e => { e.style.background = colours[e.dataset.kind]; });
const dot = kind => { const d = make("span", "", "dot"); d.dataset.kind = kind; return d; };

// Time without idle stretches: `at` maps seconds to the shown axis, `back` maps them back --------------------------
let knots = [], shownTotal = total, skipIdle = true;
const measure = () => {
  knots = [[0, 0]];
  if (skipIdle) {
    const busy = spans.filter(s => s.kind !== "run" && !(s.kind === "turn")).map(s => [s.start, endOf(s)]).sort((a, b) => a[0] - b[0]);
    let until = 0, cut = 0, work = 0;
    for (const [a, b] of busy) { work += Math.max(0, b - Math.max(a, until)); until = Math.max(until, b); }
    const long = Math.max(2, work * 0.02); until = 0;
    for (const [a, b] of busy) {
      if (a - until > long) { knots.push([until, until - cut]); const kept = long / 4; cut += a - until - kept; knots.push([a, a - cut]); }
      until = Math.max(until, b);
    }
    shownTotal = total - cut;
  } else shownTotal = total;
  knots.push([total, shownTotal]);
};
const pick = (v, k) => { let lo = 0, hi = knots.length - 2; while (lo < hi) { const mid = (lo + hi + 1) >> 1; if (knots[mid][k] <= v) lo = mid; else hi = mid - 1; } return lo; };
const along = (v, k) => { const i = pick(v, k), a = knots[i], b = knots[i + 1], w = b[k] - a[k]; return w > 0 ? a[1 - k] + (v - a[k]) / w * (b[1 - k] - a[1 - k]) : a[1 - k]; };
const at = v => along(v, 0), back = v => along(v, 1);

// Lanes: one for each agent and task; in it a row for its frame, one for the model, and rows for calls that overlap --
const ROW = 18, GAP = 3, HEAD = 24, LEFT = innerWidth < 700 ? 112 : 190, MOST_ROWS = 10;
let lanes = [], height = 0;
const hidden = new Set(), folded = new Set();
const group = s => s.kind === "run" ? 0 : s.kind === "turn" || TASKS.has(s.kind) ? 1 : s.kind === "model" ? 2 : s.kind === "tool" ? 3 : 4;
const layOut = () => {
  const found = new Map();
  for (const s of spans) { if (!found.has(s.agent)) found.set(s.agent, []); found.get(s.agent).push(s); }
  const order = [], seen = new Set();
  const starts = [...found.keys()].sort((a, b) => (a === "" ? -1 : b === "" ? 1 : found.get(a)[0].start - found.get(b)[0].start));
  const above = a => { const own = (found.get(a) || []).find(s => TASKS.has(s.kind)); const up = own && own.more.launched_by; return up && up !== a && found.has(up) ? up : ""; };
  const place = (a, depth) => { if (seen.has(a) || depth > 40) return; seen.add(a); order.push([a, depth]); for (const b of starts) if (b !== "" && !seen.has(b) && above(b) === a) place(b, depth + 1); };
  for (const a of starts) if (a === "" || above(a) === "") place(a, a === "" ? 0 : 1);
  for (const a of starts) place(a, 1);
  lanes = []; let y = 0;
  for (const [agent, depth] of order) {
    const list = found.get(agent), own = list.find(s => TASKS.has(s.kind));
    const lane = {agent, depth, y, own, rows: []};
    const groups = [[], [], [], [], []];
    for (const s of list) if (!hidden.has(s.kind)) groups[group(s)].push(s);
    for (const g of folded.has(agent) ? groups.slice(0, 2) : groups) {
      const ends = [], base = lane.rows.length;
      for (const s of g) {
        let r = ends.findIndex(e => e <= s.start + 1e-9);
        if (r < 0) { r = ends.length < MOST_ROWS ? ends.length : ends.indexOf(Math.min(...ends)); }
        ends[r] = Math.max(ends[r] || 0, endOf(s));
        (lane.rows[base + r] = lane.rows[base + r] || []).push(s);
        s.lane = lane; s.row = base + r;
      }
    }
    if (!lane.rows.length) { if (!list.length) continue; lane.rows.push([]); }
    lane.h = lane.rows.length * ROW + GAP * 2; y += lane.h; lanes.push(lane);
  }
  height = y;
};

// View ------------------------------------------------------------------------------------------------------------
const chart = $("chart"), over = $("overview"), pen = chart.getContext("2d"), mini = over.getContext("2d");
let width = 0, tall = 0, from = 0, to = 1, scroll = 0, chosen = null, hovered = null, matches = null, pending = false;
const x = v => LEFT + (v - from) / (to - from) * (width - LEFT);
const clamp = () => {
  const least = Math.max(shownTotal * 1e-7, 1e-6), w = Math.min(Math.max(to - from, least), shownTotal * 1.04);
  const mid = (from + to) / 2; from = mid - w / 2; to = mid + w / 2;
  const margin = shownTotal * 0.02;
  if (from < -margin) { to += -margin - from; from = -margin; }
  if (to > shownTotal + margin) { from -= to - shownTotal - margin; to = shownTotal + margin; }
  scroll = Math.max(0, Math.min(scroll, height + 12 - (tall - HEAD)));
};
const draw = () => { if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; paint(); }); } };
const show = (a, b) => { from = a; to = b; clamp(); draw(); };
const fit = () => show(-shownTotal * 0.015, shownTotal * 1.015);
const zoom = (by, centre) => { const c = centre === undefined ? (from + to) / 2 : centre; show(c - (c - from) * by, c + (to - c) * by); };
const closer = by => { const c = chosen ? (Math.max(from, at(chosen.start)) + Math.min(to, at(endOf(chosen)))) / 2 : undefined; zoom(by, c >= from && c <= to ? c : undefined); };
const size = canvas => { const r = canvas.getBoundingClientRect(), d = devicePixelRatio || 1; canvas.width = Math.max(1, r.width * d); canvas.height = Math.max(1, r.height * d); canvas.getContext("2d").setTransform(d, 0, 0, d, 0, 0); return r; };
const resize = () => { const r = size(chart); width = r.width; tall = r.height; size(over); clamp(); paint(); };
const steps = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];

const paint = () => {
  const p = pen; p.clearRect(0, 0, width, tall); p.font = "11px system-ui,sans-serif"; p.textBaseline = "middle";
  p.fillStyle = colours.bg; p.fillRect(0, 0, width, tall);
  p.save(); p.beginPath(); p.rect(0, HEAD, width, tall - HEAD); p.clip();
  lanes.forEach((lane, n) => { const y = HEAD + lane.y - scroll; if (y > tall || y + lane.h < HEAD) return; if (n % 2) { p.fillStyle = colours.stripe; p.fillRect(0, y, width, lane.h); } });
  p.restore();
  paintAxis(p);
  p.save(); p.beginPath(); p.rect(LEFT, HEAD, width - LEFT, tall - HEAD); p.clip();
  let drawn = 0;
  for (const lane of lanes) { const y = HEAD + lane.y - scroll; if (y <= tall && y + lane.h >= HEAD) lane.rows.forEach((row, r) => { drawn += paintRow(p, row, y + GAP + r * ROW); }); }
  paintArrows(p);
  p.restore();
  paintNames(p); paintOverview();
  chart.dataset.drawn = drawn;
};
const paintAxis = p => {
  const want = (to - from) / Math.max(2, (width - LEFT) / 110), step = steps.find(s => s >= want) || 604800 * 4;
  p.strokeStyle = colours.line; p.fillStyle = colours.dim; p.lineWidth = 1; p.textAlign = "left";
  for (let t = Math.ceil(Math.max(0, from) / step) * step; t <= Math.min(to, shownTotal); t += step) {
    const px = Math.round(x(t)) + .5; p.beginPath(); p.moveTo(px, HEAD - 5); p.lineTo(px, tall); p.stroke(); const word = time(back(t)).replace("0 µs", "0"); if (px + 4 + p.measureText(word).width < width) p.fillText(word, px + 4, 11);
  }
  for (let i = 1; i < knots.length - 1; i += 2) {
    const a = x(knots[i][1]), b = x(knots[i + 1][1]); if (b < LEFT || a > width) continue;
    p.fillStyle = colours.line; p.globalAlpha = .5; p.fillRect(Math.max(a, LEFT), HEAD, Math.max(1, b - Math.max(a, LEFT)), tall); p.globalAlpha = 1;
    if (b - a > 52) { p.fillStyle = colours.dim; p.textAlign = "center"; p.fillText(time(knots[i + 1][0] - knots[i][0]) + " idle", (a + b) / 2, HEAD + 9); p.textAlign = "left"; }
  }
};
const paintRow = (p, row, y) => {
  // Spans narrower than a pixel share one: the first is drawn, and a failure always is. So a frame costs what fits on the screen.
  let last = -1, drawn = 0;
  for (const s of row) {
    const a = x(at(s.start)), b = x(at(endOf(s)));
    if (b < LEFT || a > width) continue;
    const left = Math.max(a, LEFT - 4), w = Math.max(Math.min(b, width + 4) - left, 1.5), faint = matches && !matches.has(s.i);
    const right = Math.floor(left + w);
    if (w < 3 && right <= last && !isBad(s) && s !== chosen && !(matches && !faint)) continue;
    last = right; drawn++;
    p.globalAlpha = faint ? .15 : 1;
    p.fillStyle = colours[s.kind];
    box(p, left, y + 1, w, ROW - 3, w > 6 ? 4 : 1); p.fill();
    if (s.status === "running" && w > 14) { p.fillStyle = colours.bg; p.globalAlpha *= .45; for (let h = left + w - 14; h < left + w; h += 5) p.fillRect(h, y + 1, 2, ROW - 3); p.globalAlpha = faint ? .15 : 1; }
    if (isBad(s)) { p.fillStyle = colours.bad; p.fillRect(left, y + ROW - 5, w, 3); if (w > 8) { p.beginPath(); p.arc(left + w - 7, y + 6, 3, 0, 7); p.fill(); } }
    if (s === chosen || s === hovered) { p.strokeStyle = s === chosen ? colours.text : colours.accent; p.lineWidth = 2; box(p, left, y + 1, w, ROW - 3, w > 6 ? 4 : 1); p.stroke(); }
    if (w > 26) { p.fillStyle = s.kind === "run" || s.kind === "turn" ? colours.text : s.kind === "waiting" ? "#1d2230" : colours.ink; label(p, s.kind === "turn" ? "turn" : s.name, left + 6, y + ROW / 2, w - (isBad(s) ? 20 : 10)); }
    p.globalAlpha = 1;
  }
  return drawn;
};
const box = (p, a, y, w, h, r) => { p.beginPath(); if (p.roundRect) p.roundRect(a, y, w, h, r); else p.rect(a, y, w, h); };
const label = (p, text, a, y, room) => { const most = Math.floor(room / 6); if (most > 1) p.fillText(text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text, a, y); };
const mid = s => HEAD + s.lane.y - scroll + GAP + s.row * ROW + ROW / 2;
const seen = s => { const y = mid(s); return y > HEAD && y < tall; };
const paintArrows = p => {
  // An arrow to a lane that is out of sight would only be a line across the others.
  const arrows = [];
  for (const s of spans) {
    if (!s.lane || folded.has(s.agent) && group(s) > 1 || hidden.has(s.kind)) continue;
    for (const id of s.links) { const other = byId.get(id); if (other && other.lane) arrows.push(s.kind === "turn" ? [other, endOf(other), s, s.start] : [other, Math.min(endOf(other), s.start), s, s.start]); }
    if (TASKS.has(s.kind) && s.parent && byId.get(s.parent) && byId.get(s.parent).lane) arrows.push([byId.get(s.parent), s.start, s, s.start]);
  }
  const some = arrows.filter(([a, ta, b, tb]) => { const u = x(at(ta)), v = x(at(tb)); return Math.max(u, v) > LEFT && Math.min(u, v) < width && (seen(a) && seen(b) || a === chosen || b === chosen || a === hovered || b === hovered); });
  const few = some.length <= 300;
  for (const [a, ta, b, tb] of some) {
    const own = a === chosen || b === chosen || a === hovered || b === hovered; if (!few && !own) continue;
    const u = x(at(ta)), v = x(at(tb)), ya = mid(a), yb = mid(b), bend = Math.max(12, Math.min(46, Math.abs(v - u) / 2));
    p.strokeStyle = p.fillStyle = own ? colours.accent : colours.dim; p.globalAlpha = own ? 1 : .4; p.lineWidth = own ? 2 : 1.2;
    p.beginPath(); p.moveTo(u, ya); p.bezierCurveTo(u + bend, ya, v - bend, yb, v - 5, yb); p.stroke();
    p.beginPath(); p.moveTo(v, yb); p.lineTo(v - 7, yb - 4); p.lineTo(v - 7, yb + 4); p.fill(); p.globalAlpha = 1;
  }
};
const paintNames = p => {
  p.fillStyle = colours.panel; p.fillRect(0, 0, LEFT, tall); p.strokeStyle = colours.line; p.lineWidth = 1; p.beginPath(); p.moveTo(LEFT + .5, 0); p.lineTo(LEFT + .5, tall); p.moveTo(0, HEAD + .5); p.lineTo(width, HEAD + .5); p.stroke();
  p.save(); p.beginPath(); p.rect(0, HEAD + 1, LEFT - 4, tall); p.clip();
  for (const lane of lanes) {
    const y = HEAD + lane.y - scroll; if (y > tall || y + lane.h < HEAD) continue;
    const a = 12 + Math.min(lane.depth, 6) * 12;
    p.fillStyle = lane.own ? colours[lane.own.kind] : colours.accent; box(p, a, y + GAP + 5, 8, 8, 2); p.fill();
    p.fillStyle = colours.text; p.font = "600 12px system-ui,sans-serif"; label(p, (folded.has(lane.agent) ? "▸ " : "") + agentName(lane.agent), a + 14, y + GAP + ROW / 2, (LEFT - a - 22) * .84);  // bold
    p.font = "11px system-ui,sans-serif"; p.fillStyle = colours.dim;
    if (lane.h > ROW * 1.7) label(p, lane.own ? lane.own.name + " · " + time(endOf(lane.own) - lane.own.start) : "main agent", a + 14, y + GAP + ROW * 1.5, LEFT - a - 22);
    p.strokeStyle = colours.line; p.beginPath(); p.moveTo(0, Math.round(y + lane.h) + .5); p.lineTo(LEFT, Math.round(y + lane.h) + .5); p.stroke();
  }
  p.restore();
};
let load = [];
const measureLoad = () => { const n = 400; load = Array.from({length: n}, () => ({})); for (const s of spans) if (group(s) > 1) { const a = Math.floor(at(s.start) / shownTotal * n), b = Math.min(n - 1, Math.floor(at(endOf(s)) / shownTotal * n)); for (let i = Math.max(0, a); i <= b; i++) { load[i][s.kind] = (load[i][s.kind] || 0) + 1; if (isBad(s)) load[i].bad = 1; } } };
const paintOverview = () => {
  const w = over.getBoundingClientRect().width, m = mini; m.fillStyle = colours.panel; m.fillRect(0, 0, w, 36);
  const room = w - LEFT, top = Math.max(1, ...load.map(c => KINDS.reduce((n, k) => n + (c[k] || 0), 0)));
  load.forEach((c, i) => { let y = 34; const cell = room / load.length; for (const k of KINDS) if (c[k]) { const h = Math.max(1.5, c[k] / top * 28); m.fillStyle = colours[k]; m.fillRect(LEFT + i * cell, y - h, cell + .5, h); y -= h; } if (c.bad) { m.fillStyle = colours.bad; m.fillRect(LEFT + i * cell, 0, Math.max(2, cell), 3); } });
  const a = LEFT + Math.max(0, from / shownTotal) * room, b = LEFT + Math.min(1, to / shownTotal) * room;
  m.fillStyle = colours.accent; m.globalAlpha = .13; m.fillRect(a, 0, b - a, 36); m.globalAlpha = 1; m.strokeStyle = colours.accent; m.strokeRect(a + .5, .5, Math.max(2, b - a - 1), 35);
  m.fillStyle = colours.dim; m.font = "11px system-ui,sans-serif"; m.textBaseline = "middle"; m.fillText(data.spans.length + " spans", 12, 18);
};

// Choosing --------------------------------------------------------------------------------------------------------
const find = (px, py) => {
  if (px < LEFT || py < HEAD) return null;
  const lane = lanes.find(l => { const y = HEAD + l.y - scroll; return py >= y && py < y + l.h; }); if (!lane) return null;
  const row = lane.rows[Math.floor((py - (HEAD + lane.y - scroll) - GAP) / ROW)]; if (!row) return null;
  let best = null, near = 4;
  for (const s of row) { const a = x(at(s.start)), b = Math.max(a + 1.5, x(at(endOf(s)))); const d = px < a ? a - px : px > b ? px - b : 0; if (d === 0 && (near > 0 || endOf(s) - s.start < endOf(best) - best.start) || d < near) { best = s; near = d; } }
  return best;
};
const TITLES = {prompt: "Prompt", input: "Input", output: "Output", error: "Error"};
const choose = (s, reveal) => {
  chosen = s; const panel = $("panel"), was = panel.hidden; panel.replaceChildren(); panel.hidden = !s;
  if (s) {
    const close = make("button", "✕", "close"); close.setAttribute("aria-label", "Close"); close.onclick = () => choose(null); panel.append(close);
    const title = make("h2"); title.append(dot(s.kind), " " + s.name); panel.append(title);
    const list = make("dl"), add = (k, v, cls) => { if (v !== null && v !== undefined && v !== "") list.append(make("dt", k), make("dd", String(v), cls)); };
    add("kind", s.kind); add("status", s.status, s.status); add("agent", agentName(s.agent)); add("begins", time(s.start) + (data.start ? "  ·  " + new Date((data.start + s.start) * 1000).toLocaleString() : "")); add("takes", s.end === null ? "no end seen" : time(s.end - s.start));
    if (s.tokens) add("tokens", `${count(s.tokens[0])} in, ${count(s.tokens[1])} out, ${count(s.tokens[2])} cache read, ${count(s.tokens[3])} cache write`);
    if (s.cost !== null) add("cost", money(s.cost));
    for (const [k, v] of Object.entries(s.more)) if (!(k in TITLES) && k !== "models") add(k.replace(/_/g, " "), k === "notified_at" ? time(v - data.start) : Array.isArray(v) ? v.join(", ") : v);
    add("id", s.id); panel.append(list);
    for (const k of Object.keys(TITLES)) if (s.more[k]) panel.append(make("h3", TITLES[k]), make("pre", s.more[k]));
    const related = [[s.parent, "part of"], ...s.links.map(l => [l, s.kind === "turn" ? "answers" : "launched by"])].filter(([l]) => byId.has(l));
    for (const o of spans) if (o.links.includes(s.id)) related.push([o.id, o.kind === "turn" ? "answered in" : "launched"]);
    if (related.length) panel.append(make("h3", "Related"));
    for (const [l, word] of related) { const o = byId.get(l), b = make("button", word + ": " + o.name, "go"); b.onclick = () => choose(o, true); panel.append(b); }
    $("said").textContent = `${s.kind} ${s.name}, ${s.status}, ${agentName(s.agent)}, ${s.end === null ? "no end" : time(s.end - s.start)}`;
    paintDots();
  } else $("said").textContent = "";
  if (was !== panel.hidden) resize();
  if (s && reveal) bring(s);
  draw();
};
const bring = s => {
  if (hidden.has(s.kind)) { hidden.delete(s.kind); legend(); layOut(); }
  if (folded.has(s.agent) && group(s) > 1) { folded.delete(s.agent); layOut(); }
  const a = at(s.start), b = at(endOf(s)), w = to - from;
  if (a < from || b > to) { const wide = Math.max(w, (b - a) * 1.2), c = (a + b) / 2; from = c - wide / 2; to = c + wide / 2; }
  const y = s.lane ? s.lane.y + s.row * ROW : 0; if (y < scroll || y + ROW * 2 > scroll + tall - HEAD) scroll = y - (tall - HEAD) / 2;
  clamp(); draw();
};
const step = by => { const list = matches ? spans.filter(s => matches.has(s.i)) : spans.filter(s => !hidden.has(s.kind)); if (!list.length) return; const i = chosen ? list.indexOf(chosen) : by > 0 ? -1 : 0; choose(list[(i + by + list.length) % list.length], true); };

// Search ----------------------------------------------------------------------------------------------------------
const texts = [];
const textOf = s => texts[s.i] || (texts[s.i] = [s.kind, s.name, s.status, s.id, agentName(s.agent), ...Object.values(s.more).filter(v => typeof v === "string")].join("\n").toLowerCase());
const search = () => { const word = $("search").value.trim().toLowerCase(); matches = word ? new Set(spans.filter(s => textOf(s).includes(word)).map(s => s.i)) : null; $("hits").textContent = matches ? `${matches.size} found` : ""; draw(); };

// The page --------------------------------------------------------------------------------------------------------
const legend = () => {
  const list = $("legend"); list.replaceChildren();
  for (const k of KINDS) if (data.counts[k]) { const b = make("button"); b.append(dot(k), `${LABELS[k]} ${count(data.counts[k])}`); b.setAttribute("aria-pressed", String(!hidden.has(k))); b.onclick = () => { if (hidden.has(k)) hidden.delete(k); else hidden.add(k); legend(); layOut(); clamp(); draw(); }; list.append(b); }
  paintDots();
};
const card = (value, what, cls) => { const c = make("div", undefined, "card " + (cls || "")); c.append(make("b", value), make("span", what)); $("cards").append(c); };
const table = (title, heads, rows) => { const b = make("div", undefined, "box"), t = make("table"), first = make("tr"); b.append(make("h2", title)); for (const h of heads) first.append(make("th", h)); t.append(first); for (const r of rows) { const tr = make("tr"); for (const cell of r) { const td = make("td", cell); td.title = cell; tr.append(td); } t.append(tr); } b.append(t); $("panels").append(b); };
const gist = s => s.more.description || s.more.input;
const listing = (title, list, what) => { const b = make("div", undefined, "box"); b.append(make("h2", title)); for (const id of list) { const s = byId.get(id); if (!s) continue; const r = make("button", undefined, "row"); r.append(dot(s.kind), make("span", s.name + (gist(s) ? " " + gist(s) : ""), "name"), make("span", what(s), "dim")); r.onclick = () => choose(s, true); b.append(r); } if (b.children.length > 1) $("panels").append(b); };
const head = () => {
  $("title").textContent = data.title; $("source").textContent = "from " + data.source + (data.start ? " · " + new Date(data.start * 1000).toLocaleString() : "");
  card(time(data.duration), "from first to last"); card(money(data.cost), "cost, estimated by the CLI");
  const t = Object.values(data.byModel).reduce((n, u) => n + sum(u.tokens), 0); card(count(t), "tokens");
  card(count(data.counts.model || 0), "model calls"); card(count(data.counts.tool || 0), "tool calls");
  const tasks = ["subagent", "task", "child"].reduce((n, k) => n + (data.counts[k] || 0), 0); if (tasks) card(count(tasks), "agents and tasks");
  card(count(data.failures), "failed or denied", data.failures ? "bad" : "");
  if (data.dropped) card(count(data.dropped), "short spans left out");
  const used = u => [count(u.calls), count(sum(u.tokens)), u.cost === null ? "–" : money(u.cost)];
  const top = o => Object.entries(o).sort((a, b) => sum(b[1].tokens) - sum(a[1].tokens)).slice(0, 30);
  table("By model", ["model", "calls", "tokens", "cost"], top(data.byModel).map(([n, u]) => [n, ...used(u)]));
  table("By agent", ["agent", "calls", "tools", "tokens"], top(data.byAgent).map(([n, u]) => [agentName(n), count(u.calls), count(u.tools), count(sum(u.tokens)) + (u.cost === null ? "" : " · " + money(u.cost))]));
  const kinds = make("div", undefined, "box"); kinds.append(make("h2", "Time by kind")); const most = Math.max(1e-9, ...KINDS.slice(2).map(k => data.seconds[k] || 0));
  for (const k of KINDS.slice(2)) if (data.seconds[k] !== undefined) { const r = make("div", undefined, "row"), m = make("span", undefined, "meter"), bar = make("i"); bar.style.width = (data.seconds[k] / most * 100) + "%"; bar.dataset.kind = k; m.append(bar); r.append(dot(k), make("span", LABELS[k].split(" ")[0], "name"), m, make("span", time(data.seconds[k]), "dim")); kinds.append(r); }
  $("panels").append(kinds);
  listing("Slow", data.slow.slice(0, 8), s => time(endOf(s) - s.start)); listing("Failed", data.failed.slice(0, 8), s => s.status);
};

// Input -----------------------------------------------------------------------------------------------------------
let drag = null, moved = 0;
const local = e => { const r = chart.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
chart.onpointerdown = e => { const [px, py] = local(e); drag = [px, py, from, to, scroll]; moved = 0; chart.setPointerCapture(e.pointerId); chart.classList.add("drag"); };
chart.onpointermove = e => {
  const [px, py] = local(e);
  if (drag) { moved = Math.max(moved, Math.abs(px - drag[0]) + Math.abs(py - drag[1])); const by = (drag[0] - px) / (width - LEFT) * (drag[3] - drag[2]); from = drag[2] + by; to = drag[3] + by; scroll = drag[4] + drag[1] - py; clamp(); draw(); return; }
  const s = find(px, py), tip = $("tip"); if (s !== hovered) { hovered = s; draw(); }
  tip.hidden = !s; if (!s) return;
  tip.replaceChildren(make("b", s.name), make("span", `${s.kind} · ${s.status} · ${s.end === null ? "no end seen" : time(s.end - s.start)}${s.tokens ? " · " + count(sum(s.tokens)) + " tokens" : ""}`, "dim"));
  const text = gist(s) || s.more.prompt || s.more.output; if (text) tip.append(make("div", text.slice(0, 160)));
  const r = chart.getBoundingClientRect(), o = chart.offsetTop; tip.style.left = Math.max(4, Math.min(px + 14, r.width - tip.offsetWidth - 8)) + "px"; tip.style.top = Math.max(4, Math.min(py + o + 16, r.height + o - tip.offsetHeight - 8)) + "px";
};
chart.onpointerup = e => { const [px, py] = local(e); chart.classList.remove("drag"); if (drag && moved < 5) { if (px < LEFT && py > HEAD) { const lane = lanes.find(l => { const y = HEAD + l.y - scroll; return py >= y && py < y + l.h; }); if (lane) { if (folded.has(lane.agent)) folded.delete(lane.agent); else folded.add(lane.agent); layOut(); clamp(); draw(); } } else choose(find(px, py)); } drag = null; };
chart.onpointerleave = () => { hovered = null; $("tip").hidden = true; draw(); };
chart.ondblclick = e => { const s = find(...local(e)); if (s) closeUp(s); };
const closeUp = s => { const a = at(s.start), b = at(endOf(s)), w = Math.max(b - a, shownTotal * 1e-5); show(a - w * .15, b + w * .15); };
chart.addEventListener("wheel", e => { e.preventDefault(); if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { const by = (e.deltaX || e.deltaY) / (width - LEFT) * (to - from); show(from + by, to + by); } else if (e.altKey) { scroll += e.deltaY; clamp(); draw(); } else { const px = local(e)[0]; zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * .004), from + Math.max(0, px - LEFT) / (width - LEFT) * (to - from)); } }, {passive: false});
over.onpointerdown = e => { over.setPointerCapture(e.pointerId); jump(e); };
over.onpointermove = e => { if (e.buttons) jump(e); };
const jump = e => { const r = over.getBoundingClientRect(), c = (e.clientX - r.left - LEFT) / (r.width - LEFT) * shownTotal, w = to - from; show(c - w / 2, c + w / 2); };
document.onkeydown = e => {
  if (e.target === $("search")) { if (e.key === "Escape") { $("search").value = ""; search(); chart.focus(); } else if (e.key === "Enter") { step(e.shiftKey ? -1 : 1); e.preventDefault(); } return; }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const w = to - from, keys = {
    ArrowLeft: () => show(from - w * .1, to - w * .1), ArrowRight: () => show(from + w * .1, to + w * .1), ArrowUp: () => { scroll -= 40; clamp(); draw(); }, ArrowDown: () => { scroll += 40; clamp(); draw(); },
    "+": () => closer(.7), "=": () => closer(.7), "-": () => closer(1 / .7), "0": fit, n: () => step(1), p: () => step(-1), Escape: () => choose(null), "/": () => $("search").focus(), d: () => $("theme").click(),
    Enter: () => chosen && e.target === chart && closeUp(chosen), Home: () => show(0, w), End: () => show(shownTotal - w, shownTotal)};
  if (e.target.tagName === "BUTTON" && (e.key === "Enter" || e.key === " ") || !keys[e.key]) return;
  keys[e.key](); e.preventDefault();
};
$("search").oninput = search; $("in").onclick = () => zoom(.6); $("out").onclick = () => zoom(1 / .6); $("fit").onclick = fit;
$("idle").onchange = () => { skipIdle = $("idle").checked; measure(); measureLoad(); fit(); };
$("theme").onclick = () => { setTheme(document.documentElement.dataset.theme !== "dark"); draw(); };
new ResizeObserver(resize).observe($("stage"));
const wish = matchMedia("(prefers-color-scheme: dark)"); wish.onchange = () => { setTheme(wish.matches); draw(); };
if (innerWidth < 700 || innerHeight < 720) $("summary").open = false;  // the chart comes first
head(); legend(); setTheme(wish.matches); measure(); layOut(); measureLoad(); fit(); resize();
document.body.dataset.ready = "yes";
})();
