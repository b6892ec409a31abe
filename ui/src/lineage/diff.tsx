/** /diff: what changed between two times. */

import { useCallback, useMemo } from "react";
import { ask, isMasked, type Dataset, type Difference, type Lineage, type LineageNode, type Query } from "../api";
import { Stage } from "../graph/stage";
import { inWorker } from "../graph/in-worker";
import { useLayout } from "../graph/use-layout";
import type { Change } from "../graph/scene";
import { useWork } from "../load";
import { address, changedQuery, go, type Place } from "../route";
import { Nothing, Problem, Waiting } from "../states";
import { edgeKey } from "./answer";
import { token } from "./asked";
import { Switch, TimeSlider } from "./controls";
import { ExportButtons } from "./export-buttons";
import { useMoments } from "./moments";
import { Chosen } from "./page";
import { sceneOf, type ChangedEdge } from "./scene-of";

const PAGE_ONLY = ["selected", "run", "unchanged"];

interface Compared {
  columns: boolean;
  difference: Difference;
  before: Lineage | null;
  after: Lineage | null;
}

async function compared(given: Query, signal: AbortSignal): Promise<Compared> {
  const difference = await ask<Difference>("/diff", given, signal);
  const columns = given.level === "column";
  if (!given.name) return { columns, difference, before: null, after: null };
  const { namespace, name, level } = given;
  const dataset = await ask<Dataset>("/dataset", { namespace, name }, signal);
  const born = dataset.created ? Date.parse(dataset.created) : -Infinity;
  const at = (time: unknown) =>
    Date.parse(String(time)) < born
      ? Promise.resolve(null)
      : ask<Lineage>("/lineage", { namespace: dataset.namespace, name: dataset.name, level, depth: 100, as_of: String(time) }, signal).catch(() => null);
  const [before, after] = await Promise.all([at(given.before), at(given.after)]);
  return { columns, difference, before, after };
}

/** A dataset is added or removed with the whole of its place in the graph, and changed when what it is made of did. */
export function nodeChanges({ difference, before, after }: Omit<Compared, "columns">): Map<string, Change> {
  const changes = new Map<string, Change>();
  const was = before && new Set(before.nodes.map((node) => node.id));
  const is = after && new Set(after.nodes.map((node) => node.id));
  for (const edge of [...difference.added, ...difference.removed, ...difference.changed]) changes.set(edge.target, "changed");
  const only = (edges: Difference["added"], others: Difference["added"]) => {
    const touched = new Set(others.flatMap((edge) => [edge.source, edge.target]));
    return (id: string) => !touched.has(id) && edges.some((edge) => edge.target === id);
  };
  const looksNew = only(difference.added, [...difference.removed, ...difference.changed]);
  const looksGone = only(difference.removed, [...difference.added, ...difference.changed]);
  for (const { id } of difference.nodes) {
    if (is || was) {
      if (is?.has(id) && !was?.has(id)) changes.set(id, "added");
      else if (was?.has(id) && !is?.has(id)) changes.set(id, "removed");
    } else if (looksNew(id)) changes.set(id, "added");
    else if (looksGone(id)) changes.set(id, "removed");
  }
  return changes;
}

export function DiffPage({ place }: { place: Place }) {
  const { query } = place;
  const given = useMemo(() => {
    const all: Query = {};
    for (const [name, value] of query) if (!PAGE_ONLY.includes(name)) all[name] = value;
    return all;
  }, [query]);
  const complete = given.before && given.after;
  const { value, error, loading } = useWork(complete ? `diff ${JSON.stringify(given)}` : null, (signal) => compared(given, signal));
  const columns = query.get("level") === "column";
  const unchanged = query.get("unchanged") === "true";
  const shown = useMemo(() => {
    if (!value) return null;
    const { columns, difference, after, before } = value;
    const edges: ChangedEdge[] = [
      ...difference.added.map((edge) => ({ ...edge, change: "added" as const })),
      ...difference.removed.map((edge) => ({ ...edge, change: "removed" as const })),
      ...difference.changed.map((edge) => ({ ...edge, change: "changed" as const })),
    ];
    const nodes = new Map<string, LineageNode>(difference.nodes.map((node) => [node.id, node]));
    if (unchanged && after) {
      const known = new Set(edges.map(edgeKey));
      for (const node of after.nodes) if (!nodes.has(node.id)) nodes.set(node.id, node);
      edges.push(...after.edges.filter((edge) => !known.has(edgeKey(edge))));
    }
    const root = after?.root ?? before?.root ?? null;
    return { root, nodes: [...nodes.values()], edges, columns, path: new Set<string>(), changes: nodeChanges(value) };
  }, [value, unchanged]);
  const scene = useMemo(() => (shown ? sceneOf(shown) : null), [shown]);
  const { placed, busy } = useLayout(scene, inWorker);
  const moments = useMoments(
    !complete ? null : given.name ? { namespace: given.namespace, name: given.name, direction: "backward", depth: 100, ...(columns ? { level: "column" } : {}) } : {},
  );
  const change = useCallback(
    (changes: Record<string, string | null>, how: "push" | "replace" = "push") => go(address("/diff", changedQuery(query, changes)), how),
    [query],
  );
  const byId = useMemo(() => new Map(shown?.nodes.map((node) => [node.id, node])), [shown]);
  const selected = useMemo(() => shown?.nodes.find((node) => token(node) === query.get("selected")) ?? null, [shown, query]);
  const select = useCallback((id: string | null) => change({ selected: id === null ? null : token(byId.get(id)!), run: null }), [change, byId]);
  const name = query.get("name");
  const stop = () => {
    const after = query.get("after");
    const late = moments && moments.length && after && Date.parse(after) > Date.parse(moments[moments.length - 1]!);
    go(
      name
        ? address("/lineage", { namespace: query.get("namespace"), name, as_of: late ? null : after, level: columns ? "column" : null })
        : "/",
    );
  };
  const difference = value?.difference;
  return (
    <main className="lineage" data-details={selected || query.get("run") ? "open" : undefined}>
      <div className="controls">
        <h1 title={name ?? undefined}>{name ?? "The whole catalogue"}</h1>
        <Switch label="Columns" on={columns} onChange={(on) => change({ level: on ? "column" : null })} />
        {name && <Switch label="Unchanged" on={unchanged} hint="Also show what stayed as it was" onChange={(on) => change({ unchanged: on ? "true" : null })} />}
        <TimeSlider label="Before" time={query.get("before")} moments={moments} onChange={(time, drag) => change({ before: time ?? new Date().toISOString() }, drag ? "replace" : "push")} />
        <TimeSlider label="As of" time={query.get("after")} moments={moments} onChange={(time, drag) => change({ after: time ?? new Date().toISOString() }, drag ? "replace" : "push")} />
        <Switch label="Compare" on={true} onChange={stop} />
      </div>
      {!complete && <Nothing>Two times are needed: before and after.</Nothing>}
      {error && <Problem error={error} />}
      {complete && !error && !value && <Waiting what="Comparing the two times" />}
      {shown && difference && !error && (
        <>
          <p className="notice legend" role="status">
            {difference.added.length + difference.removed.length + difference.changed.length === 0 ? (
              "Nothing changed between these two times."
            ) : (
              <>
                <span className="added">{difference.added.length} added</span>
                <span className="removed">{difference.removed.length} removed</span>
                <span className="changed">{difference.changed.length} changed</span>
              </>
            )}
          </p>
          <Stage
            label="Lineage graph"
            placed={placed}
            busy={busy || loading}
            data={{
              nodes: shown.nodes.length,
              edges: shown.edges.length,
              added: difference.added.length,
              removed: difference.removed.length,
              changed: difference.changed.length,
            }}
            selected={selected?.id ?? null}
            onSelect={select}
            onLine={(line) => {
              const run = placed?.scene.lines[line]?.run;
              if (run) change({ run, selected: null });
            }}
            onColumn={(id, column) => {
              const node = byId.get(id);
              if (node && !isMasked(node)) go(address("/lineage", { namespace: node.namespace, name: node.name, level: "column", column, direction: "both" }));
            }}
            tools={<ExportButtons placed={placed} nodes={shown.nodes} edges={shown.edges} name={`difference of ${name ?? "catalogue"}`} />}
          />
          <Chosen node={selected} run={query.get("run")} asOf={query.get("after")} onClose={() => change({ selected: null, run: null })} />
        </>
      )}
    </main>
  );
}
