/** The graph in a notebook: the data is in the document, and nothing is asked for later. */

import { useMemo, useState } from "react";
import { isMasked, type Edge, type LineageNode, type Step } from "../api";
import { Stage } from "../graph/stage";
import { useLayout } from "../graph/use-layout";
import { layout, type LayoutInput } from "../graph/layout";
import { Switch } from "../lineage/controls";
import { ExportButtons } from "../lineage/export-buttons";
import { columnKey, sceneOf } from "../lineage/scene-of";
import { stepScene } from "../pages/steps";
import { many, shown } from "../text";

export interface GivenRows {
  name: string;
  rows: number;
  columns: string[];
  first: unknown[][];
}
export interface Given {
  title: string;
  /** A lineage of datasets. */
  lineage?: { root: string | null; nodes: LineageNode[]; edges: Edge[]; columns: Edge[]; truncated: boolean };
  /** Or a trace: its steps and the first rows of its sources. */
  trace?: { steps: Step[]; sources: GivenRows[]; exact: boolean; notes: string[] };
}

const here = (input: LayoutInput) => Promise.resolve(layout(input));

export function Notebook({ given }: { given: Given }) {
  return (
    <div className="notebook">
      {given.lineage && <LineageView given={given.lineage} title={given.title} />}
      {given.trace && <TraceView given={given.trace} title={given.title} />}
    </div>
  );
}

function LineageView({ given, title }: { given: NonNullable<Given["lineage"]>; title: string }) {
  const [columns, setColumns] = useState(false);
  const [indirect, setIndirect] = useState(false);
  const [chosen, setChosen] = useState<string | null>(null);
  const [column, setColumn] = useState<{ id: string; name: string } | null>(null);
  const edges = useMemo(
    () => (columns ? given.columns.filter((edge) => indirect || edge.kind !== "INDIRECT") : given.edges),
    [columns, indirect, given],
  );
  const path = useMemo(() => (columns && column ? pathThrough(edges, column.id, column.name) : new Set<string>()), [columns, column, edges]);
  const scene = useMemo(() => sceneOf({ root: given.root, nodes: given.nodes, edges, columns, path }), [given, edges, columns, path]);
  const { placed, busy } = useLayout(scene, here);
  const node = given.nodes.find((each) => each.id === chosen);
  return (
    <>
      <div className="controls">
        <h1 title={title}>{title}</h1>
        <small>
          {many(given.nodes.length, "dataset")}, {many(given.edges.length, "edge")}
          {given.truncated ? "; only the nearest are shown" : ""}
        </small>
        <Switch label="Columns" on={columns} onChange={setColumns} disabled={!given.columns.length} />
        <Switch label="Indirect" on={indirect} onChange={setIndirect} disabled={!columns} />
      </div>
      <Stage
        label="Lineage graph"
        placed={placed}
        busy={busy}
        embedded
        data={{ nodes: given.nodes.length, edges: edges.length }}
        selected={chosen}
        onSelect={setChosen}
        onColumn={(id, name) => setColumn((before) => (before?.id === id && before.name === name ? null : { id, name }))}
        tools={<ExportButtons placed={placed} nodes={given.nodes} edges={edges} name={title} />}
      />
      {node && !isMasked(node) && (
        <p className="notice">
          <strong>{node.name}</strong> <span>{node.kind}</span> <span>{node.namespace}</span>
          {node.columns?.length ? <span>{node.columns.join(", ")}</span> : null}
        </p>
      )}
    </>
  );
}

/** All columns before and after one, along the links. */
export function pathThrough(edges: Edge[], id: string, name: string): Set<string> {
  const start = columnKey(id, name);
  const path = new Set([start]);
  for (const forward of [true, false]) {
    const near = new Map<string, string[]>();
    for (const edge of edges) {
      if (!edge.source_column || !edge.target_column) continue;
      const from = columnKey(edge.source, edge.source_column);
      const to = columnKey(edge.target, edge.target_column);
      const [a, b] = forward ? [from, to] : [to, from];
      near.set(a, [...(near.get(a) ?? []), b]);
    }
    const waiting = [start];
    const seen = new Set(waiting);
    while (waiting.length)
      for (const next of near.get(waiting.pop()!) ?? [])
        if (!seen.has(next)) {
          seen.add(next);
          path.add(next);
          waiting.push(next);
        }
  }
  return path;
}

function TraceView({ given, title }: { given: NonNullable<Given["trace"]>; title: string }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const scene = useMemo(() => stepScene(given.steps), [given]);
  const { placed, busy } = useLayout(scene, here);
  const step = given.steps.find((each) => String(each.number) === chosen);
  return (
    <>
      <div className="controls">
        <h1 title={title}>{title}</h1>
        <small>{given.exact ? "Exact: these rows and no others" : `Not exact: ${given.notes.join("; ")}`}</small>
      </div>
      <Stage
        label="Graph of steps"
        placed={placed}
        busy={busy}
        embedded
        data={{ nodes: given.steps.length, edges: scene.lines.length }}
        selected={chosen}
        onSelect={setChosen}
      />
      {step && (
        <p className="notice">
          <strong>{step.operator}</strong> <span>{step.text}</span>
        </p>
      )}
      <section className="rows" role="region" aria-label="Rows">
        {given.sources.map((source) => (
          <div className="source" key={source.name}>
            <h3>
              {source.name} <small>{many(source.rows, "row")}</small>
            </h3>
            {source.first.length > 0 && (
              <div className="scroll">
                <table className="list data" aria-label={source.name}>
                  <thead>
                    <tr>
                      {source.columns.map((column, i) => (
                        <th key={i} scope="col">
                          {column}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {source.first.map((row, i) => (
                      <tr key={i}>
                        {row.map((value, j) => (
                          <td key={j}>{shown(value)}</td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            {source.rows > source.first.length && <p className="soft">The first {source.first.length} are shown.</p>}
          </div>
        ))}
      </section>
    </>
  );
}
