/** /lineage: one dataset's inputs and outputs as a graph, at a time, with or without columns. */

import { useCallback, useEffect, useMemo, useState } from "react";
import { isMasked, type LineageNode, type Ref } from "../api";
import { DatasetDetails, MaskedDetails, RunDetails } from "../details";
import { Stage } from "../graph/stage";
import { inWorker } from "../graph/in-worker";
import { useLayout } from "../graph/use-layout";
import { Link } from "../link";
import { useWork } from "../load";
import { address, changedQuery, go, type Place } from "../route";
import { Nothing, Problem, Waiting } from "../states";
import { many } from "../text";
import { lineageAnswer } from "./answer";
import { asked, lineageQuery, token } from "./asked";
import { DepthField, DirectionSelect, Switch, TimeSlider } from "./controls";
import { ExportButtons } from "./export-buttons";
import { placeOf, useMoments } from "./moments";
import { useMore } from "./more";
import { pathOf, sceneOf } from "./scene-of";

const VIEW_ONLY = ["selected", "run", "all"];

export function LineagePage({ place }: { place: Place }) {
  const { query } = place;
  const wanted = useMemo(() => asked(query), [query]);
  const dataQuery = useMemo(() => changedQuery(query, Object.fromEntries(VIEW_ONLY.map((name) => [name, null]))), [query]);
  const key = wanted.name ? `lineage ${dataQuery}` : null;
  // With each answer stands what it answers: while the next one is awaited, the old one is shown as what it is.
  const { value: answered, error, loading } = useWork(key, async (signal) => ({
    lineage: await lineageAnswer(dataQuery, signal),
    column: wanted.column,
    columns: wanted.columns,
  }));
  const value = answered?.lineage ?? null;
  const given = useMemo(() => lineageQuery(dataQuery), [dataQuery]);
  const allColumns = useMemo(() => new Set(wanted.all), [wanted]);
  const scene = useMemo(() => {
    if (!answered || error) return null;
    const { lineage, column, columns } = answered;
    const all = new Set(lineage.nodes.filter((node) => allColumns.has(token(node))).map((node) => node.id));
    const path = pathOf(lineage.root, column, lineage.edges);
    return sceneOf({ root: lineage.root, nodes: lineage.nodes, edges: lineage.edges, columns, path, allColumns: all });
  }, [answered, error, allColumns]);
  const { placed, busy } = useLayout(scene, inWorker);
  const selected = useMemo(() => value?.nodes.find((node) => token(node) === wanted.selected) ?? null, [value, wanted.selected]);
  const more = useMore(loading ? null : value, given, wanted.asOf, selected?.id ?? null);
  const moments = useMoments(value && !error ? momentsQuery(given) : null);

  const change = useCallback(
    (changes: Record<string, string | string[] | null>, how: "push" | "replace" = "push") =>
      go(address("/lineage", changedQuery(query, changes)), how),
    [query],
  );
  const byId = useMemo(() => new Map(value?.nodes.map((node) => [node.id, node])), [value]);
  const select = useCallback(
    (id: string | null) => change({ selected: id === null ? null : token(byId.get(id)!), run: null }),
    [change, byId],
  );
  const onMore = useCallback(
    (id: string, side: "inputs" | "outputs") => change({ [side]: [...new Set([...query.getAll(side), token(byId.get(id)!)])] }),
    [change, byId, query],
  );
  const onColumn = useCallback(
    (id: string, column: string) => {
      const node = byId.get(id);
      if (!node || isMasked(node)) return;
      const root = id === value?.root;
      if (root && wanted.column === column) return change({ column: null, level: "column" });
      if (root) return change({ column, level: "column" });
      // A column's path is asked for at its own dataset, both ways.
      change({ namespace: node.namespace, name: node.name, column, level: "column", direction: "both" });
    },
    [change, byId, value, wanted.column],
  );
  // Which times to compare is known once the moments are.
  const [comparing, setComparing] = useState(false);
  useEffect(() => setComparing(false), [place]);
  useEffect(() => {
    if (!comparing || !moments) return;
    const after = wanted.asOf ?? new Date().toISOString();
    const last = Math.min(moments.length - 1, Math.floor(placeOf(moments, wanted.asOf)));
    const before = moments[Math.max(0, last - 1)] ?? after;
    const root = value?.nodes.find((node) => node.id === value.root) as Ref | undefined;
    go(address("/diff", { before, after, namespace: root?.namespace ?? wanted.namespace, name: root?.name ?? wanted.name, level: wanted.columns ? "column" : null }));
  }, [comparing, moments, value, wanted]);

  if (!wanted.name) {
    return (
      <main className="page">
        <Nothing>
          <h2>No dataset is named</h2>
          <p>
            Search for one above, or go to <Link href="/">all datasets</Link>.
          </p>
        </Nothing>
      </main>
    );
  }
  const root = value?.nodes.find((node) => node.id === value.root) ?? null;
  const name = root && !isMasked(root) ? root.name : wanted.name;
  return (
    <main className="lineage" data-details={selected || wanted.run ? "open" : undefined}>
      <div className="controls">
        <h1 title={name}>{name}</h1>
        <DirectionSelect value={query.get("direction") ?? "backward"} onChange={(direction) => change({ direction })} />
        <DepthField value={wanted.depth} onChange={(depth) => depth !== wanted.depth && change({ depth })} />
        <Switch label="Columns" on={wanted.columns} onChange={(on) => change({ level: on ? "column" : null, column: null, indirect: null })} />
        <Switch
          label="Indirect"
          on={wanted.indirect}
          disabled={!wanted.columns}
          hint="Links of columns that only decide, such as filters and join keys"
          onChange={(on) => change({ indirect: on ? "true" : null })}
        />
        <TimeSlider label="As of" time={wanted.asOf} moments={moments} onChange={(as_of, drag) => change({ as_of }, drag ? "replace" : "push")} />
        <Switch label="Compare" on={comparing} hint="Show what changed between two times" onChange={setComparing} />
      </div>
      {error && <Problem error={error} />}
      {!error && !value && <Waiting what="Asking for the lineage" />}
      {!error && value && (
        <>
          <Notices nodes={value.nodes} edges={value.edges.length} truncated={value.truncated} column={wanted.column} onWhole={() => change({ limit: "20000" })} onNoColumn={() => change({ column: null, level: "column" })} />
          <Stage
            label="Lineage graph"
            placed={placed}
            busy={busy || loading}
            data={{ nodes: value.nodes.length, edges: value.edges.length }}
            selected={selected?.id ?? null}
            onSelect={select}
            onLine={(line) => {
              const run = placed?.scene.lines[line]?.run;
              if (run) change({ run, selected: null });
            }}
            onColumn={onColumn}
            onAllColumns={(id) => change({ all: [...wanted.all, token(byId.get(id)!)] })}
            more={more}
            onMore={onMore}
            tools={<ExportButtons placed={placed} nodes={value.nodes} edges={value.edges} name={name} />}
          />
          <Chosen node={selected} run={wanted.run} asOf={wanted.asOf} onClose={() => change({ selected: null, run: null })} />
        </>
      )}
    </main>
  );
}

function momentsQuery(given: ReturnType<typeof lineageQuery>) {
  const { limit: _, ...rest } = given;
  return rest;
}

export function Chosen(props: { node: LineageNode | null; run: string | null; asOf: string | null; onClose: () => void }) {
  if (props.run) return <RunDetails id={props.run} onClose={props.onClose} />;
  if (!props.node) return null;
  if (isMasked(props.node)) return <MaskedDetails onClose={props.onClose} />;
  return <DatasetDetails key={props.node.id} dataset={props.node} asOf={props.asOf} onClose={props.onClose} />;
}

function Notices(props: { nodes: LineageNode[]; edges: number; truncated: boolean; column: string | null; onWhole: () => void; onNoColumn: () => void }) {
  return (
    <>
      {props.truncated && (
        <p className="notice" role="status">
          Only the nearest {many(props.nodes.length, "dataset")} are shown; there are more.
          {props.nodes.length < 20000 && (
            <button type="button" onClick={props.onWhole}>
              Show up to 20,000
            </button>
          )}
        </p>
      )}
      {props.column !== null && (
        <p className="notice">
          The path of <strong>{props.column}</strong>
          <button type="button" onClick={props.onNoColumn}>
            Show all columns
          </button>
        </p>
      )}
      {props.nodes.length === 1 && props.edges === 0 && (
        <p className="notice" role="status">
          Nothing is known to be connected with it in this direction.
        </p>
      )}
    </>
  );
}
