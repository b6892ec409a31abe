/** Made-up catalogues for working on the page without Spark or Python. */

const DAY = Date.UTC(2026, 9, 1, 8);
export const at = (minutes) => new Date(DAY + minutes * 60000).toISOString().replace("Z", "000+00:00");

export class Catalogue {
  datasets = [];
  edges = [];
  runs = [];
  #byName = new Map();

  dataset(name, { namespace = "demo", kind = "table", columns = ["id", "amount", "day"], masked = false, minute = 0 } = {}) {
    const key = `${namespace} ${name}`;
    let found = this.#byName.get(key);
    if (!found) {
      found = { id: `d${this.datasets.length}`, namespace, name, kind, columns, masked, created: at(minute), dropped: null, failed: null, versions: [] };
      this.#byName.set(key, found);
      this.datasets.push(found);
    }
    return found;
  }

  named(namespace, name) {
    if (namespace) return [this.#byName.get(`${namespace} ${name}`)].filter(Boolean);
    return this.datasets.filter((dataset) => dataset.name === name);
  }

  /** One run reads `inputs` and writes `output`; what an earlier one brought stays only where it is an append. */
  write(inputs, output, { minute = 0, how = "overwrite", failed = false, name = `write ${output.name}` } = {}) {
    const run = { id: `run-${this.runs.length}`, kind: "write", name, status: failed ? "failed" : "completed", error: failed ? "Division by zero" : null, started: at(minute - 1), ended: at(minute), application: "nightly", details: { sql: `INSERT INTO ${output.name} SELECT …` }, inputs, outputs: [output] };
    this.runs.push(run);
    output.failed = failed ? run.id : null;
    if (failed) return run;
    if (how === "overwrite") for (const edge of this.edges) if (edge.target === output && !edge.closed) edge.closed = at(minute);
    output.versions.push({ number: output.versions.length + 1, how, at: at(minute), run: run.id, external: null, columns: output.columns.map((column) => ({ name: column, type: "int" })) });
    for (const source of inputs) this.edges.push({ source, target: output, kind: "write", run: run.id, at: at(minute), closed: null });
    return run;
  }
}

function random(seed) {
  let state = seed >>> 0;
  return () => (state = (state * 1664525 + 1013904223) >>> 0) / 2 ** 32;
}

function generated(catalogue, prefix, count, seed, reach) {
  const next = random(seed);
  const kinds = ["table", "table", "table", "view", "path", "topic", "model"];
  const made = Array.from({ length: count }, (_, i) => catalogue.dataset(`${prefix}_${String(i).padStart(4, "0")}`, { kind: kinds[Math.floor(next() * kinds.length)] }));
  for (let i = 1; i < count; i++) {
    const inputs = new Set([made[Math.max(0, i - 1 - Math.floor(next() * reach))]]);
    if (next() < 0.6) inputs.add(made[Math.max(0, i - 1 - Math.floor(next() * reach))]);
    catalogue.write([...inputs], made[i], { minute: i });
  }
  // Everything leads to the last one, so that one question gives it all.
  const read = new Set(catalogue.edges.map((edge) => edge.source));
  catalogue.write(made.filter((one) => !read.has(one) && one !== made[count - 1]).concat(made[count - 2]), made[count - 1], { minute: count, how: "append" });
}

export function demo() {
  const c = new Catalogue();
  const orders = c.dataset("shop.orders", { columns: ["id", "customer", "amount", "day"] });
  const customers = c.dataset("shop.customers", { columns: ["customer", "city", "email"] });
  const clean = c.dataset("shop.clean_orders", { columns: ["id", "customer", "amount"] });
  const cities = c.dataset("shop.cities", { kind: "view", columns: ["customer", "city"] });
  const report = c.dataset("shop.report", { columns: ["city", "total"] });
  const model = c.dataset("/models/forecast", { kind: "model", columns: [] });
  const legacy = c.dataset("shop.legacy_orders", { columns: ["id", "amount"] });
  c.write([], orders, { minute: 1 });
  c.write([], customers, { minute: 2 });
  c.write([legacy], clean, { minute: 3 });
  c.write([customers], cities, { minute: 4 });
  c.write([clean, cities], report, { minute: 5 });
  c.write([orders], clean, { minute: 60 });
  c.write([clean, cities], report, { minute: 61 });
  c.write([report], model, { minute: 62 });
  c.write([report], c.dataset("shop.weekly"), { minute: 63, failed: true });
  legacy.dropped = at(64);
  const hidden = c.dataset("secret", { masked: true });
  c.write([orders], hidden, { minute: 65 });
  c.write([hidden], c.dataset("shop.bonus"), { minute: 66 });
  const odd = ["<img src=x onerror=alert(1)>", "naïve \"quotes\" 'n' `ticks`", "🦆 ducks/📦", "x".repeat(500), "two\nlines", "a/b/c?d=e&f#g", "'; DROP TABLE runs; --"];
  const all = odd.map((name) => c.dataset(name, { namespace: "odd", kind: "path", columns: [name] }));
  c.write(all, c.dataset("odd_ones"), { minute: 70 });
  generated(c, "fifty", 50, 11, 12);
  generated(c, "big", 2000, 7, 300);
  return c;
}
