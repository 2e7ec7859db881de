// A memory service as a child process, in Node.js, without any package:
//   longmemeval memory check "process:node examples/memory-in-node/memory.mjs"
// It finds the messages that share most words with the question, like the example of `longmemeval memory init`.
// One JSON message per line on standard input and output; console.error is for everything else.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const scopes = new Map(); // scope -> {file, batches: [batch id], stored: [hit]}

const wordsOf = (text, shortest) =>
  new Set((text.toLowerCase().match(/[a-z0-9]+/g) ?? []).filter((word) => word.length >= shortest));

const methods = {
  hello: () => ({
    protocol: 1,
    name: "memory-in-node",
    packages: { node: process.versions.node },
    capabilities: { dates: "native", provenance: "message", unit: "session", persist: "directory", list: true, delete: true, signals: ["words"], telemetry: "off", models: "none" },
  }),
  open({ scope, directory, mode, configuration }) {
    const file = `${directory}/memory.json`;
    const kept = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { batches: [], stored: [] };
    scopes.set(scope, { file, mode, shortest: configuration.shortest ?? 3, ...kept });
    return { batch_ids: kept.batches };
  },
  add({ scope, batch_id, session }) {
    const { batches, stored } = open(scope);
    if (batches.includes(batch_id)) return {}; // The same batch again changes nothing.
    for (const { id, role, speaker, content } of session.messages)
      stored.push({ text: content, date: session.date, message_ids: [id], speaker: speaker || role });
    batches.push(batch_id);
    return {};
  },
  ready: ({ scope }) => ({ state: "ready", done: open(scope).batches.length }),
  search({ scope, query, limit }) {
    const { stored, shortest } = open(scope);
    const wanted = wordsOf(query, shortest);
    const items = stored
      .map((hit) => ({ ...hit, score: [...wordsOf(hit.text, shortest)].filter((word) => wanted.has(word)).length }))
      .filter((hit) => hit.score > 0)
      .sort((a, b) => b.score - a.score); // Stable: ties stay in the order they were added.
    return { items: items.slice(0, limit), truncated: items.length > limit };
  },
  delete({ scope, subject }) {
    const kept = open(scope).stored.filter((hit) => !hit.text.toLowerCase().includes(subject.toLowerCase()));
    Object.assign(open(scope), { stored: kept });
    save(scope); // At once: after a kill it must not come back.
    return {};
  },
  snapshot({ scope }) {
    save(scope);
    scopes.delete(scope);
    return {};
  },
  list: ({ scope }) => ({ items: open(scope).stored }),
  reset({ scope }) {
    Object.assign(open(scope), { batches: [], stored: [] });
    rmSync(open(scope).file, { force: true });
    return {};
  },
  shutdown: () => ({}),
};

function save(scope) {
  const { file, mode, batches, stored } = open(scope);
  if (mode === "prepare") writeFileSync(file, JSON.stringify({ batches, stored }));
}

function open(scope) {
  if (!scopes.has(scope)) throw Object.assign(new Error("this scope is not open"), { code: "not_open" });
  return scopes.get(scope);
}

function answer({ method, params }) {
  try {
    if (!methods[method]) throw Object.assign(new Error(`there is no method '${method}'`), { code: "unknown_method" });
    return { result: methods[method](params) };
  } catch (error) {
    console.error(error.stack);
    return { error: { code: error.code ?? "failed", message: String(error.message), retryable: false } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(JSON.stringify({ id: request.id, ...answer(request) }) + "\n");
  if (request.method === "shutdown") break;
}
