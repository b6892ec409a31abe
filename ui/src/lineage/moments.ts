/** The moments at which a graph changed: what the time sliders stop at. */

import { useWork } from "../load";
import { ask, isMasked, type Dataset, type Lineage, type LineageNode, type List, type Query, type Ref, type Run, type Version } from "../api";
import { paced } from "../pace";
import { edgeKey } from "./answer";

const MOST_DATASETS = 120;
const MOST_MOMENTS = 80;
const AT_A_TIME = 4;

function signature(graph: Lineage): string {
  const nodes = graph.nodes.map((node) => (isMasked(node) ? node.id : `${node.id}${node.dropped ? "x" : ""}`)).sort();
  return JSON.stringify([nodes, graph.edges.map(edgeKey).sort()]);
}

async function inTurns<A, B>(items: A[], work: (item: A) => Promise<B>): Promise<B[]> {
  const out: B[] = [];
  for (let at = 0; at < items.length; at += AT_A_TIME) out.push(...(await Promise.all(items.slice(at, at + AT_A_TIME).map(work))));
  return out;
}

/**
 * Every version of what is in the graph may have changed it; the graph of each such time is compared with the one
 * before. A past graph may hold other datasets, whose versions count too.
 */
export async function momentsOf(query: Query, signal: AbortSignal): Promise<string[]> {
  const { as_of: _now, ...always } = query;
  const now = await ask<Lineage>("/lineage", always, signal);
  const root = now.nodes.find((node) => node.id === now.root);
  if (!root || isMasked(root)) return [];
  const dataset = await ask<Dataset>("/dataset", { namespace: root.namespace, name: root.name }, signal);
  const born = dataset.created ? Date.parse(dataset.created) : -Infinity;
  const graphs = new Map<string, string>();
  const times = new Map<number, string>();
  const asked = new Set<string>();
  let fresh: LineageNode[] = now.nodes;
  for (let round = 0; round < 4 && fresh.length; round++) {
    const nodes = fresh.filter((node): node is Extract<LineageNode, Ref> => !isMasked(node) && !asked.has(node.id));
    const few = nodes.sort((a, b) => a.depth - b.depth).slice(0, MOST_DATASETS - asked.size);
    for (const node of few) asked.add(node.id);
    const versions = await inTurns(few, (node) =>
      paced(() => ask<List<Version>>("/versions", { namespace: node.namespace, name: node.name, limit: 100 }, signal), signal),
    );
    const found = [...versions.flatMap((list) => list.items.map((version) => version.at)), ...few.map((node) => node.dropped)];
    for (const time of found) if (typeof time === "string" && Date.parse(time) >= born) times.set(exact(time), time);
    const open = [...times.values()].filter((time) => !graphs.has(time)).sort((a, b) => exact(b) - exact(a));
    const seen = new Map<string, LineageNode>();
    await inTurns(open.slice(0, MOST_MOMENTS - graphs.size), async (time) => {
      const graph = await paced(() => ask<Lineage>("/lineage", { ...always, as_of: time }, signal), signal);
      graphs.set(time, signature(graph));
      for (const node of graph.nodes) if (!asked.has(node.id)) seen.set(node.id, node);
    });
    fresh = [...seen.values()];
  }
  return changesOnly(graphs);
}

/** Microseconds count: two runs may end within one millisecond. */
function exact(time: string): number {
  const fraction = /\.(\d+)/.exec(time)?.[1] ?? "";
  const whole = Date.parse(time.replace(/\.\d+/, ""));
  return whole * 1000 + Number(fraction.padEnd(6, "0").slice(0, 6));
}

export function changesOnly(graphs: Map<string, string>): string[] {
  const sorted = [...graphs.keys()].sort((a, b) => exact(a) - exact(b));
  return sorted.filter((time, i) => i === 0 || graphs.get(time) !== graphs.get(sorted[i - 1]!));
}

/** For a whole catalogue: when its newest runs ended. */
export async function runMoments(signal: AbortSignal): Promise<string[]> {
  const runs = await ask<List<Run>>("/runs", { status: "completed", limit: 200 }, signal);
  const times = new Map<number, string>();
  for (const run of runs.items) if (run.ended) times.set(exact(run.ended), run.ended);
  return [...times].sort(([a], [b]) => a - b).map(([, time]) => time);
}

/** null while they are being found. */
export function useMoments(query: Query | null): string[] | null {
  const { as_of: _, ...always } = query ?? {};
  const key = query ? `moments ${JSON.stringify(always)}` : null;
  const { value, error, loading } = useWork(key, (signal) => (query?.name ? momentsOf(always, signal) : runMoments(signal)));
  if (error) return [];
  return loading ? null : value;
}

/** The place of a time among the moments; between two of them it is a half; `moments.length` is now. */
export function placeOf(moments: string[], time: string | null): number {
  if (time === null) return moments.length;
  const here = exact(time);
  const after = moments.findIndex((moment) => exact(moment) >= here);
  if (after < 0) return moments.length;
  return exact(moments[after]!) === here ? after : after - 0.5;
}
