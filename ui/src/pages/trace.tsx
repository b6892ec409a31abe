/** /traces/{id}: a stored trace as a picture: its steps as a graph, its witness rows as tables. */

import { useEffect, useMemo, useState } from "react";
import { ask, askRows, isMasked, type AnyRef, type Ref, type Rows, type Source, type Trace } from "../api";
import { askTrace, Status } from "../details";
import { Stage } from "../graph/stage";
import { inWorker } from "../graph/in-worker";
import { useLayout } from "../graph/use-layout";
import { DatasetLink } from "../link";
import { asError } from "../load";
import { address, changedQuery, go, idIn, type Place } from "../route";
import { Nothing, Problem, Waiting } from "../states";
import { many, shown, when } from "../text";
import { stepScene } from "./steps";
import { whereOf } from "./where";

const AGAIN_MS = 1000;
const FIRST = 20;
const MORE = 100;
const NUMERIC = /^(tinyint|smallint|int|integer|bigint|long|short|byte|float|double|decimal)/i;

function useTrace(id: string): { trace: Trace | null; error: Error | null } {
  const [state, setState] = useState<{ id: string; trace: Trace | null; error: Error | null }>({ id, trace: null, error: null });
  useEffect(() => {
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const trace = await ask<Trace>(`/traces/${encodeURIComponent(id)}`, {}, ending.signal);
        setState({ id, trace, error: null });
        if (trace.status === "queued" || trace.status === "running") timer = setTimeout(look, AGAIN_MS);
      } catch (failure) {
        if (!ending.signal.aborted) setState({ id, trace: null, error: asError(failure) });
      }
    };
    void look();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [id]);
  return state.id === id ? state : { trace: null, error: null };
}

export function questionText(trace: Trace): string {
  const asked = trace.question;
  if (!asked) return "";
  if (typeof asked === "string") return asked;
  const { question, name, where, to } = asked as Record<string, unknown>;
  const parts = [question, name ? `of ${String(name)}` : null, where ? `where ${String(where)}` : null];
  if (to && typeof to === "object" && "name" in to) parts.push(`to ${String((to as { name: unknown }).name)}`);
  return parts.filter(Boolean).join(" ");
}

export function TracePage({ place }: { place: Place }) {
  const id = idIn(place, "/traces/");
  const { trace, error } = useTrace(id);
  const scene = useMemo(() => (trace?.steps?.length ? stepScene(trace.steps) : null), [trace]);
  const { placed, busy } = useLayout(scene, inWorker);
  const chosen = place.query.get("step");
  const step = trace?.steps?.find((each) => String(each.number) === chosen) ?? null;
  if (error) {
    return (
      <main className="page">
        <Problem error={error} />
      </main>
    );
  }
  if (!trace) {
    return (
      <main className="page">
        <Waiting what="Reading the trace" />
      </main>
    );
  }
  return (
    <main className="page trace">
      <header className="title">
        <h1>{trace.name || `Trace ${trace.id}`}</h1>
        <Status status={trace.status} />
      </header>
      <p className="soft">
        {[questionText(trace), trace.asked && `asked ${when(trace.asked)}`, trace.finished && `finished ${when(trace.finished)}`].filter(Boolean).join(" · ")}
      </p>
      <Progress trace={trace} />
      {trace.error && (
        <div className="problem" role="alert">
          <strong>The question could not be answered</strong>
          <p>{trace.error}</p>
        </div>
      )}
      {trace.masked && <p className="notice">Some of its datasets are not yours to see, so their rows and the texts of steps are left out.</p>}
      {trace.status === "done" && trace.exact !== null && (
        <div className={trace.exact ? "verdict exact" : "verdict"}>
          <strong>{trace.exact ? "Exact: these rows and no others" : "Not exact: there may be more rows than needed"}</strong>
          {(trace.notes?.length ?? 0) > 0 && (
            <ul>
              {trace.notes!.map((note) => (
                <li key={note}>{note}</li>
              ))}
            </ul>
          )}
        </div>
      )}
      {trace.steps?.length > 0 && (
        <section role="region" aria-label="Steps" className="steps">
          <h2>Steps</h2>
          <Stage
            label="Graph of steps"
            placed={placed}
            busy={busy}
            data={{ nodes: trace.steps.length, edges: scene?.lines.length ?? 0 }}
            selected={chosen}
            embedded
            onSelect={(number) => go(address(place.path, changedQuery(place.query, { step: number })))}
          />
          {step && (
            <div className="step">
              <h3>{step.operator}</h3>
              {step.text && <pre className="text">{step.text}</pre>}
              {step.rows !== null && step.rows !== undefined && <p className="soft">{many(step.rows, "row")} here</p>}
            </div>
          )}
        </section>
      )}
      {trace.status === "done" && (
        <section role="region" aria-label="Rows" className="rows">
          <h2>Rows</h2>
          {!trace.sources.length && <Nothing>No source row is behind it.</Nothing>}
          {trace.sources.map((source) => (
            <SourceRows key={source.number} trace={trace} source={source} />
          ))}
        </section>
      )}
    </main>
  );
}

function Progress({ trace }: { trace: Trace }) {
  if (trace.status === "queued") {
    return (
      <Nothing>
        <p>
          It waits for a Spark session attached to this store: <code>whence.attach(spark, store=…)</code>. The next one answers it.
        </p>
      </Nothing>
    );
  }
  if (trace.status !== "running") return null;
  return (
    <p className="progress">
      <progress aria-label="Progress" max={1} value={trace.progress ?? undefined} /> {trace.progress === null ? "" : `${Math.round(trace.progress * 100)} %`}
    </p>
  );
}

function SourceRows({ trace, source }: { trace: Trace; source: Source }) {
  const [rows, setRows] = useState<Rows | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [loading, setLoading] = useState(false);
  const masked = isMasked(source.dataset as AnyRef);
  // Of a trace that touches something hidden no rows are given at all.
  const withheld = masked || trace.masked === true;
  const path = `/traces/${encodeURIComponent(trace.id)}/rows`;
  useEffect(() => {
    if (withheld || source.rows === 0) return;
    const ending = new AbortController();
    askRows(path, { source: source.number, limit: FIRST }, ending.signal).then(setRows, (failure: unknown) => {
      if (!ending.signal.aborted) setError(asError(failure));
    });
    return () => ending.abort();
  }, [path, source.number, source.rows, withheld]);
  const more = async () => {
    if (!rows?.next) return;
    setLoading(true);
    try {
      const next = await askRows(path, { source: source.number, limit: MORE, cursor: rows.next });
      setRows({ ...next, items: [...rows.items, ...next.items] });
    } catch (failure) {
      setError(asError(failure));
    } finally {
      setLoading(false);
    }
  };
  const onward = async (where: string) => {
    setError(null);
    try {
      go(await askTrace(source.dataset as Ref, where));
    } catch (failure) {
      setError(asError(failure));
    }
  };
  const name = masked ? "masked" : (source.dataset as Ref).name;
  return (
    <div className="source">
      <h3>
        <DatasetLink dataset={source.dataset} /> {source.rows !== null && <small>{many(source.rows, "row")}</small>}
      </h3>
      {withheld && <p className="soft">Its rows are not yours to see.</p>}
      {error && <Problem error={error} />}
      {rows && (
        <div className="scroll">
          <table className="list data" aria-label={name}>
            <thead>
              <tr>
                {rows.columns.map((column) => (
                  <th key={column.name} scope="col" className={NUMERIC.test(column.type) ? "number" : undefined}>
                    {column.name} <small>{column.type}</small>
                  </th>
                ))}
                <th scope="col">
                  <span className="unseen">Go on</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.items.map((row, i) => {
                const where = whereOf(rows.columns, row);
                return (
                  <tr key={i}>
                    {row.map((value, j) => (
                      <td key={j} className={NUMERIC.test(rows.columns[j]?.type ?? "") ? "number" : value === null ? "null" : undefined}>
                        {shown(value)}
                      </td>
                    ))}
                    <td>
                      {where && (
                        <button type="button" className="quiet" aria-label={`Trace row ${i + 1} of ${name}`} title="Which rows made this one?" onClick={() => void onward(where)}>
                          Trace
                        </button>
                      )}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {rows?.next && (
        <button type="button" className="wide" disabled={loading} onClick={() => void more()}>
          More rows
        </button>
      )}
    </div>
  );
}
