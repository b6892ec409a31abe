/**
 * Serves the built page and just enough of the API to work on it: `node dev/server.mjs [port]`.
 * The real server is `whence serve`; the page's tests run against that one.
 */

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { demo } from "./catalogue.mjs";

const port = Number(process.argv[2] ?? 8421);
const page = join(fileURLToPath(new URL(".", import.meta.url)), "../../src/whence/serve/page");
const catalogue = demo();
const byId = new Map(catalogue.datasets.map((dataset) => [dataset.id, dataset]));

const ref = (d) => (d.masked ? { id: d.id, masked: true } : { id: d.id, namespace: d.namespace, name: d.name, kind: d.kind });
const whole = (d) => ({ ...ref(d), version: d.versions.length, created: d.created, dropped: d.dropped, columns: d.columns.map((name) => ({ name, type: "int" })) });
const runOf = (run) => ({ ...run, inputs: run.inputs.map(ref), outputs: run.outputs.map(ref) });

class Refused extends Error {
  constructor(status, title, detail, more = {}) {
    super(detail);
    Object.assign(this, { status, body: { type: "about:blank", title, status, detail, ...more } });
  }
}

function one(query) {
  const found = catalogue.named(query.get("namespace"), query.get("name")).filter((d) => !d.masked);
  if (!found.length) throw new Refused(404, "Not found", `No dataset is named ${query.get("name")}.`);
  if (found.length > 1) throw new Refused(409, "Ambiguous", "Several datasets have this name.", { candidates: found.map(ref) });
  return found[0];
}

function edgesAt(asOf) {
  if (!asOf) return catalogue.edges.filter((e) => !e.closed);
  const time = Date.parse(asOf);
  return catalogue.edges.filter((e) => Date.parse(e.at) <= time && (!e.closed || Date.parse(e.closed) > time));
}

function walk(root, direction, depth, asOf) {
  const edges = edgesAt(asOf);
  const depths = new Map([[root, 0]]);
  const kept = new Map();
  for (const way of direction === "both" ? ["backward", "forward"] : [direction]) {
    const near = new Map();
    for (const e of edges) {
      const from = way === "backward" ? e.target : e.source;
      near.set(from, [...(near.get(from) ?? []), e]);
    }
    let level = [root];
    const seen = new Set(level);
    for (let step = 1; step <= depth && level.length; step++) {
      const next = [];
      for (const d of level)
        for (const e of near.get(d) ?? []) {
          kept.set(e, step);
          const other = way === "backward" ? e.source : e.target;
          if (!depths.has(other)) depths.set(other, step);
          if (!seen.has(other)) {
            seen.add(other);
            next.push(other);
          }
        }
      level = next;
    }
  }
  return { depths, kept };
}

function columnEdges(e, depth, column) {
  return e.source.columns
    .filter((name) => e.target.columns.includes(name) && (!column || name === column))
    .map((name) => ({ source: e.source.id, target: e.target.id, kind: "DIRECT", run: e.run, at: e.at, depth, source_column: e.source.masked ? null : name, target_column: e.target.masked ? null : name, subtype: "IDENTITY", masking: false }));
}

function lineage(query) {
  const root = one(query);
  const column = query.get("column");
  const columns = query.get("level") === "column" || column;
  const { depths, kept } = walk(root, query.get("direction") ?? "backward", Number(query.get("depth") ?? 3), query.get("as_of"));
  let edges = [...kept].flatMap(([e, depth]) =>
    columns ? columnEdges(e, depth, column) : [{ source: e.source.id, target: e.target.id, kind: e.kind, run: e.run, at: e.at, depth }],
  );
  const limit = Number(query.get("limit") ?? 2000);
  let nodes = [...depths].sort((a, b) => a[1] - b[1]);
  if (column) {
    const touched = new Set(edges.flatMap((e) => [e.source, e.target])).add(root.id);
    nodes = nodes.filter(([d]) => touched.has(d.id));
  }
  const truncated = nodes.length > limit;
  nodes = nodes.slice(0, limit);
  const here = new Set(nodes.map(([d]) => d.id));
  edges = edges.filter((e) => here.has(e.source) && here.has(e.target));
  return {
    root: root.id,
    nodes: nodes.map(([d, depth]) => (d.masked ? { ...ref(d), depth } : { ...ref(d), depth, dropped: d.dropped, failed: d.failed, ...(columns ? { columns: d.columns } : {}) })),
    edges,
    truncated,
  };
}

function diff(query) {
  const root = query.get("name") ? one(query) : null;
  const key = (e) => `${e.source.id} ${e.target.id} ${e.kind}`;
  const at = (time) => {
    const edges = root ? [...walk(root, "backward", 100, time).kept.keys()] : edgesAt(time);
    return new Map(edges.map((e) => [key(e), e]));
  };
  const before = at(query.get("before"));
  const after = at(query.get("after"));
  const out = (e) => ({ source: e.source.id, target: e.target.id, kind: e.kind, run: e.run, at: e.at, depth: 1 });
  const added = [...after].filter(([k]) => !before.has(k)).map(([, e]) => out(e));
  const removed = [...before].filter(([k]) => !after.has(k)).map(([, e]) => out(e));
  const ids = new Set([...added, ...removed].flatMap((e) => [e.source, e.target]));
  const nodes = [...ids].map((id) => byId.get(id)).map((d) => (d.masked ? { ...ref(d), depth: 0 } : { ...ref(d), depth: 0, dropped: d.dropped, failed: d.failed }));
  return { nodes, added, removed, changed: [] };
}

function impact(query) {
  const root = one(query);
  const { depths } = walk(root, "forward", 100, query.get("as_of"));
  const items = [...depths].filter(([d]) => d !== root).map(([d, degree]) => ({ degree, dataset: ref(d) }));
  return { items: items.sort((a, b) => a.degree - b.degree), next: null };
}

function search(query) {
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/);
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const items = [];
  for (const d of catalogue.datasets) {
    if (d.masked) continue;
    if (has(d.name)) items.push({ type: "dataset", dataset: ref(d), column: null, run: null });
    for (const column of d.columns) if (has(column)) items.push({ type: "column", dataset: ref(d), column, run: null });
  }
  return { items: items.sort((a, b) => (a.type > b.type ? -1 : 1)).slice(0, Number(query.get("limit") ?? 100)), next: null };
}

const trace = {
  id: "t1", name: "The negative total", status: "done", progress: 1, question: "backward", asked: "2026-10-01T10:00:00+00:00", finished: "2026-10-01T10:00:02+00:00", exact: true, notes: [], error: null,
  steps: [
    { number: 1, operator: "Filter", text: "Filter (total < 0)", depth: 0, rows: 1 },
    { number: 2, operator: "Aggregate", text: "Aggregate [city], [city, sum(amount) AS total]", depth: 1, rows: 1 },
    { number: 3, operator: "Join", text: "Join Inner, (customer = customer)", depth: 2, rows: 3 },
    { number: 4, operator: "Scan", text: "Scan shop.clean_orders", depth: 3, rows: 3 },
    { number: 5, operator: "Scan", text: "Scan shop.cities", depth: 3, rows: 2 },
  ],
  sources: [
    { number: 0, dataset: ref(catalogue.named("demo", "shop.clean_orders")[0]), rows: 45, columns: [] },
    { number: 1, dataset: ref(catalogue.named("demo", "shop.cities")[0]), rows: 2, columns: [] },
  ],
};
const diagnosis = { id: "g1", name: "Nightly load", created: "2026-10-01T10:00:00+00:00", executions: 31, parameters: { partitions: [1, 2, 8], format: ["csv", "parquet"] }, causes: [{ conditions: [["partitions", ">", 2], ["format", "==", "csv"]], status: "confirmed", confidence: 0.97 }] };

function rows(query) {
  const first = Number(query.get("cursor") ?? 0);
  const limit = Number(query.get("limit") ?? 20);
  const all = query.get("source") === "0" ? 45 : 2;
  const items = Array.from({ length: Math.min(limit, all - first) }, (_, i) => [first + i, ["Ada", "Eve", null][i % 3], (i % 7) * 10 - 30]);
  return { columns: [{ name: "id", type: "int" }, { name: "customer", type: "string" }, { name: "amount", type: "int" }], items, next: first + limit < all ? String(first + limit) : null };
}

const page1 = (items, query) => ({ items: items.slice(0, Number(query.get("limit") ?? 100)), next: null });
const ROUTES = {
  "/datasets": (q) => page1(catalogue.datasets.filter((d) => !d.masked).map(whole), q),
  "/dataset": (q) => ({ ...whole(one(q)), aliases: [] }),
  "/versions": (q) => page1([...one(q).versions].reverse(), q),
  "/runs": (q) => {
    const about = q.get("name") ? one(q) : null;
    const runs = catalogue.runs.filter((run) => !about || run.inputs.includes(about) || run.outputs.includes(about));
    return page1([...runs].reverse().map(runOf), q);
  },
  "/lineage": lineage,
  "/diff": diff,
  "/impact": impact,
  "/search": search,
  "/traces": (q) => page1([trace], q),
  "/traces/t1": () => trace,
  "/traces/t1/rows": rows,
  "/diagnoses": (q) => page1([diagnosis], q),
  "/diagnoses/g1": () => diagnosis,
};

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  const send = (status, type, body) => {
    response.writeHead(status, { "Content-Type": type, "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff" });
    response.end(body);
  };
  try {
    if (url.pathname.startsWith("/api/v1")) {
      const path = decodeURIComponent(url.pathname.slice("/api/v1".length));
      const run = path.startsWith("/runs/") && catalogue.runs.find((each) => each.id === path.slice(6));
      if (!ROUTES[path] && !run) throw new Refused(404, "Not found", "There is nothing at this address.");
      const answer = run ? { ...runOf(run), operators: [] } : ROUTES[path](url.searchParams);
      return send(200, "application/json", JSON.stringify(answer));
    }
    const file = normalize(url.pathname).startsWith("/assets/") ? url.pathname : "/index.html";
    return send(200, TYPES[extname(file)] ?? "application/octet-stream", await readFile(join(page, file)));
  } catch (error) {
    if (error instanceof Refused) return send(error.status, "application/problem+json", JSON.stringify(error.body));
    console.error(error);
    return send(500, "text/plain", "failed");
  }
}).listen(port, "127.0.0.1", () => console.log(`the page with made-up data: http://127.0.0.1:${port}/lineage?name=shop.report`));
