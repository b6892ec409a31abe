import { useCallback, useMemo } from "react";
import { isMasked, type AnyRef, type Edge, type LineageNode, type Run } from "../api";
import { RunDetails } from "../details";
import { Stage } from "../graph/stage";
import { inWorker } from "../graph/in-worker";
import { useLayout } from "../graph/use-layout";
import { ExportButtons } from "../lineage/export-buttons";
import { sceneOf } from "../lineage/scene-of";
import { useAnswer } from "../load";
import { go, idIn, lineageOf, type Place } from "../route";
import { Problem, Waiting } from "../states";

function nodeOf(ref: AnyRef, depth: number): LineageNode {
  return isMasked(ref as LineageNode) ? { id: ref.id, masked: true, depth } : ({ ...ref, depth, dropped: null, failed: null } as LineageNode);
}

/** /runs/{id}: what it read on the left, what it wrote on the right, and all that is known about it. */
export function RunPage({ place }: { place: Place }) {
  const id = idIn(place, "/runs/");
  const { value, error } = useAnswer<Run>(`/runs/${encodeURIComponent(id)}`);
  const { nodes, edges } = useMemo(() => graphOf(value), [value]);
  const scene = useMemo(() => (value ? sceneOf({ root: null, nodes, edges, columns: false, path: new Set() }) : null), [value, nodes, edges]);
  const { placed, busy } = useLayout(scene, inWorker);
  const open = useCallback(
    (chosen: string | null) => {
      const node = nodes.find((each) => each.id === chosen);
      if (node && !isMasked(node)) go(lineageOf(node));
    },
    [nodes],
  );
  if (error) {
    return (
      <main className="page">
        <Problem error={error} />
      </main>
    );
  }
  if (!value) {
    return (
      <main className="page">
        <Waiting what="Reading the run" />
      </main>
    );
  }
  return (
    <main className="lineage run" data-details="open">
      <Stage
        label="Lineage graph"
        placed={placed}
        busy={busy}
        data={{ nodes: nodes.length, edges: edges.length }}
        selected={null}
        onSelect={open}
        tools={<ExportButtons placed={placed} nodes={nodes} edges={edges} name={value.name ?? value.id} />}
      />
      <RunDetails id={id} />
    </main>
  );
}

function graphOf(run: Run | null): { nodes: LineageNode[]; edges: Edge[] } {
  if (!run) return { nodes: [], edges: [] };
  const nodes = new Map<string, LineageNode>();
  for (const ref of run.inputs) nodes.set(ref.id, nodeOf(ref, 1));
  for (const ref of run.outputs) if (!nodes.has(ref.id)) nodes.set(ref.id, nodeOf(ref, 0));
  // A failed run was to make these links; none has followed from it.
  const edges = run.inputs.flatMap((from) =>
    run.outputs.map((to) => ({ source: from.id, target: to.id, kind: run.kind, run: run.id, at: run.ended, depth: 1 })),
  );
  return { nodes: [...nodes.values()], edges };
}
