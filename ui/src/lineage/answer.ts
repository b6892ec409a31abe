/** A lineage as it is shown: the API's answer, and the steps that were added to it by hand. */

import { ask, isMasked, type Edge, type Lineage, type LineageNode } from "../api";
import { asked, lineageQuery, token } from "./asked";

export function edgeKey(edge: Edge): string {
  return JSON.stringify([edge.source, edge.target, edge.kind, edge.source_column ?? "", edge.target_column ?? "", edge.subtype ?? ""]);
}

/** Two answers as one; what the first says about a dataset stays. */
export function merged(first: Lineage, second: Lineage): Lineage {
  const nodes = new Map(first.nodes.map((node) => [node.id, node]));
  for (const node of second.nodes) if (!nodes.has(node.id)) nodes.set(node.id, node);
  const edges = new Map(first.edges.map((edge) => [edgeKey(edge), edge]));
  for (const edge of second.edges) if (!edges.has(edgeKey(edge))) edges.set(edgeKey(edge), edge);
  return { root: first.root, nodes: [...nodes.values()], edges: [...edges.values()], truncated: first.truncated };
}

export async function lineageAnswer(query: URLSearchParams, signal: AbortSignal): Promise<Lineage> {
  const wanted = asked(query);
  const given = lineageQuery(query);
  let shown = await ask<Lineage>("/lineage", given, signal);
  const waiting = [
    ...wanted.inputs.map((of) => ({ of, direction: "backward" })),
    ...wanted.outputs.map((of) => ({ of, direction: "forward" })),
  ];
  // A dataset may be known only after the step before it, so this goes round until nothing more is found.
  for (;;) {
    const known = new Map(shown.nodes.map((node) => [token(node), node]));
    const ready = waiting.filter((step) => known.has(step.of));
    if (!ready.length) return shown;
    for (const step of ready) waiting.splice(waiting.indexOf(step), 1);
    const answers = await Promise.all(
      ready.map(({ of, direction }) => {
        const node = known.get(of)!;
        if (isMasked(node)) return null;
        const { level, indirect, as_of } = given;
        return ask<Lineage>("/lineage", { namespace: node.namespace, name: node.name, direction, depth: 1, level, indirect, as_of }, signal);
      }),
    );
    for (const answer of answers) if (answer) shown = merged(shown, deeper(answer, shown));
  }
}

/** Depths count from the root that is shown. */
function deeper(answer: Lineage, shown: Lineage): Lineage {
  const base = shown.nodes.find((node) => node.id === answer.root)?.depth ?? 0;
  return { ...answer, nodes: answer.nodes.map((node) => ({ ...node, depth: node.depth + base })) as LineageNode[] };
}
