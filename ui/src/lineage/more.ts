/** Which datasets have inputs or outputs that are not shown. */

import { useEffect, useState } from "react";
import { ask, isMasked, type Lineage, type Query, type Ref } from "../api";
import { paced } from "../pace";
import type { MoreOf } from "../graph/box";

const ASK_EACH = 60;
const AT_A_TIME = 4;

interface Around {
  inputs: string[];
  outputs: string[];
}

const known = new Map<string, Around>();

async function around(node: Ref, asOf: string | null, signal: AbortSignal): Promise<Around> {
  const key = JSON.stringify([node.id, asOf]);
  const before = known.get(key);
  if (before) return before;
  const query = { namespace: node.namespace, name: node.name, direction: "both", depth: 1, limit: 20000, as_of: asOf };
  const answer = await paced(() => ask<Lineage>("/lineage", query, signal), signal);
  const found = {
    inputs: answer.edges.filter((e) => e.target === answer.root && e.source !== answer.root).map((e) => e.source),
    outputs: answer.edges.filter((e) => e.source === answer.root && e.target !== answer.root).map((e) => e.target),
  };
  if (known.size > 5000) known.clear();
  known.set(key, found);
  return found;
}

export function forgetNeighbours(): void {
  known.clear();
}

/** Small graphs: every dataset is asked about. Large ones: one question, one step further than what is shown. */
export function useMore(shown: Lineage | null, query: Query, asOf: string | null, selected: string | null): Map<string, MoreOf> {
  const [more, setMore] = useState<Map<string, MoreOf>>(new Map());
  const key = shown ? JSON.stringify([query, shown.nodes.length, shown.edges.length]) : null;
  useEffect(() => {
    setMore(new Map());
    if (!shown) return;
    const ending = new AbortController();
    const here = new Set(shown.nodes.map((node) => node.id));
    const found = new Map<string, MoreOf>();
    const tell = () => !ending.signal.aborted && setMore(new Map(found));
    const work = shown.nodes.length <= ASK_EACH ? each(shown, here, asOf, found, tell, ending.signal) : further(shown, here, query, found, ending.signal);
    work.then(tell, () => tell());
    return () => ending.abort();
  }, [key, asOf]);
  useEffect(() => {
    const node = shown?.nodes.find((each) => each.id === selected);
    if (!shown || !node || isMasked(node) || shown.nodes.length <= ASK_EACH) return;
    const ending = new AbortController();
    const here = new Set(shown.nodes.map((each) => each.id));
    around(node, asOf, ending.signal).then(
      (near) => setMore((before) => new Map(before).set(node.id, beyond(near, here))),
      () => {},
    );
    return () => ending.abort();
  }, [key, asOf, selected]);
  return more;
}

function beyond(near: Around, here: Set<string>): MoreOf {
  return { inputs: near.inputs.some((id) => !here.has(id)), outputs: near.outputs.some((id) => !here.has(id)) };
}

async function each(
  shown: Lineage,
  here: Set<string>,
  asOf: string | null,
  found: Map<string, MoreOf>,
  tell: () => void,
  signal: AbortSignal,
): Promise<void> {
  // Where the answer ends there is most likely more.
  const nodes = shown.nodes.filter((node) => !isMasked(node)).sort((a, b) => b.depth - a.depth) as (Ref & { depth: number })[];
  for (let at = 0; at < nodes.length; at += AT_A_TIME) {
    await Promise.all(
      nodes.slice(at, at + AT_A_TIME).map(async (node) => found.set(node.id, beyond(await around(node, asOf, signal), here))),
    );
    tell();
  }
}

async function further(shown: Lineage, here: Set<string>, query: Query, found: Map<string, MoreOf>, signal: AbortSignal): Promise<void> {
  const depth = Math.min(100, Number(query.depth ?? 3) + 1);
  const limit = Math.min(20000, shown.nodes.length * 2 + 1000);
  const answer = await ask<Lineage>("/lineage", { ...query, level: null, column: null, indirect: null, depth, limit }, signal);
  for (const edge of answer.edges) {
    if (here.has(edge.target) && !here.has(edge.source)) found.set(edge.target, { outputs: false, ...found.get(edge.target), inputs: true });
    if (here.has(edge.source) && !here.has(edge.target)) found.set(edge.source, { inputs: false, ...found.get(edge.source), outputs: true });
  }
}
