/** From the API's answers to what is drawn. */

import { isMasked, type Edge, type LineageNode } from "../api";
import { makeScene, shortName, type Box, type Change, type ColumnRow, type Line, type Scene } from "../graph/scene";

export interface ChangedEdge extends Edge {
  change?: Change;
}

export interface Shown {
  root: string | null;
  nodes: LineageNode[];
  edges: ChangedEdge[];
  /** With columns: each box lists them. */
  columns: boolean;
  /** Column keys (see columnKey) on the path of the asked column. */
  path: Set<string>;
  changes?: Map<string, Change>;
  /** Boxes whose columns are all wanted. */
  allColumns?: Set<string>;
}

export const MOST_ROWS = 30;

export function columnKey(id: string, column: string): string {
  return JSON.stringify([id, column]);
}

/** The columns on the way of an answer to a question about one column: every end of its links. */
export function pathOf(root: string, column: string | null, edges: Edge[]): Set<string> {
  const path = new Set<string>();
  if (column === null) return path;
  path.add(columnKey(root, column));
  for (const edge of edges) {
    if (edge.source_column) path.add(columnKey(edge.source, edge.source_column));
    if (edge.target_column) path.add(columnKey(edge.target, edge.target_column));
  }
  return path;
}

export function sceneOf(shown: Shown): Scene {
  const linked = new Map<string, Set<string>>();
  if (shown.columns) {
    const note = (id: string, column: string | null | undefined) => {
      if (!column) return;
      const columns = linked.get(id) ?? new Set<string>();
      linked.set(id, columns.add(column));
    };
    for (const edge of shown.edges) {
      note(edge.source, edge.source_column);
      note(edge.target, edge.target_column);
    }
  }
  const rows = new Map<string, number>();
  const place = new Map<string, number>();
  const boxes = shown.nodes.map((node, i) => {
    place.set(node.id, i);
    const box = boxOf(node, shown, linked.get(node.id));
    box.columns.forEach((column, row) => rows.set(columnKey(node.id, column.name), row));
    return box;
  });
  const lines: Line[] = [];
  for (const edge of shown.edges) {
    const from = place.get(edge.source);
    const to = place.get(edge.target);
    if (from === undefined || to === undefined) continue;
    const row = (id: string, column: string | null | undefined) =>
      shown.columns && column ? (rows.get(columnKey(id, column)) ?? -1) : -1;
    const onPath = (id: string, column: string | null | undefined) => !column || shown.path.has(columnKey(id, column));
    lines.push({
      from,
      to,
      fromRow: row(edge.source, edge.source_column),
      toRow: row(edge.target, edge.target_column),
      kind: edge.kind,
      run: edge.run,
      change: edge.change ?? null,
      indirect: edge.kind === "INDIRECT",
      path: shown.path.size > 0 && onPath(edge.source, edge.source_column) && onPath(edge.target, edge.target_column),
    });
  }
  return makeScene(boxes, lines);
}

function boxOf(node: LineageNode, shown: Shown, linked: Set<string> | undefined): Box {
  const change = shown.changes?.get(node.id) ?? null;
  const root = node.id === shown.root;
  if (isMasked(node)) {
    return { id: node.id, label: "masked", title: "masked", below: "not yours to see", kind: null, masked: true, failed: false, dropped: false, change, root, columns: [], hidden: 0 };
  }
  const { rows, hidden } = shown.columns ? columnRows(node.id, node.columns ?? [], shown, linked) : { rows: [], hidden: 0 };
  return {
    id: node.id,
    label: node.name,
    title: shortName(node.name),
    below: `${node.kind} · ${shortName(node.namespace, 24)}`,
    kind: node.kind,
    masked: false,
    failed: node.failed !== null && node.failed !== undefined,
    dropped: Boolean(node.dropped),
    change,
    root,
    columns: rows,
    hidden,
  };
}

function columnRows(id: string, names: string[], shown: Shown, linked: Set<string> | undefined): { rows: ColumnRow[]; hidden: number } {
  const all = [...new Set([...names, ...(linked ?? [])])];
  let kept = all;
  if (all.length > MOST_ROWS && !shown.allColumns?.has(id)) {
    // Those on the path first, then those with links; what is left out is counted at the box.
    const weight = (name: string) => (shown.path.has(columnKey(id, name)) ? 2 : linked?.has(name) ? 1 : 0);
    const chosen = new Set([...all].sort((a, b) => weight(b) - weight(a)).slice(0, MOST_ROWS));
    kept = all.filter((name) => chosen.has(name));
  }
  return { rows: kept.map((name) => ({ name, path: shown.path.has(columnKey(id, name)) })), hidden: all.length - kept.length };
}
