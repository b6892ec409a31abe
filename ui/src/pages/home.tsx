import { useMemo } from "react";
import { type Dataset, type Diagnosis, type Query, type Run, type Trace } from "../api";
import { runName, Status } from "../details";
import { DatasetLink, Link } from "../link";
import { More, useList } from "../lists";
import type { Place } from "../route";
import { EmptyCatalogue, Nothing, Problem, Waiting } from "../states";
import { when } from "../text";

const TABS = [
  ["/", "Datasets"],
  ["/runs", "Runs"],
  ["/traces", "Traces"],
  ["/diagnoses", "Diagnoses"],
] as const;

export const LISTS = ["/", "/datasets", "/runs", "/traces", "/diagnoses"];

/** /, /runs, /traces, /diagnoses: everything there is, by kind of thing, with the API's filters. */
export function HomePage({ place }: { place: Place }) {
  const path = place.path === "/datasets" ? "/" : place.path;
  const query = useMemo(() => Object.fromEntries(place.query), [place.query]);
  return (
    <main className="page">
      <h1 className="unseen">The catalogue</h1>
      <nav className="tabs" aria-label="What to list">
        {TABS.map(([href, label]) => (
          <Link key={href} href={href} aria-current={path === href ? "page" : undefined}>
            {label}
          </Link>
        ))}
      </nav>
      {path === "/runs" ? <Runs query={query} /> : path === "/traces" ? <Traces /> : path === "/diagnoses" ? <Diagnoses /> : <Datasets query={query} />}
    </main>
  );
}

function Datasets({ query }: { query: Query }) {
  const { items, next, more, error } = useList<Dataset>("/datasets", query);
  if (error) return <Problem error={error} />;
  if (!items) return <Waiting what="Reading the catalogue" />;
  if (!items.length) return Object.keys(query).length ? <Nothing>Nothing fits what was asked for.</Nothing> : <EmptyCatalogue />;
  return (
    <div className="scroll">
      <table className="list">
        <caption className="unseen">Datasets</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Kind</th>
            <th scope="col" className="wide-only">
              Namespace
            </th>
            <th scope="col">Columns</th>
            <th scope="col">Version</th>
          </tr>
        </thead>
        <tbody>
          {items.map((dataset) => (
            <tr key={dataset.id}>
              <td>
                <DatasetLink dataset={dataset} /> {dataset.dropped && <span className="status">dropped</span>}
              </td>
              <td>
                <span className={`kind kind-${dataset.kind}`}>{dataset.kind}</span>
              </td>
              <td className="soft wide-only">{dataset.namespace}</td>
              <td className="number">{dataset.columns.length || ""}</td>
              <td className="number">{dataset.version || ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More next={next} more={more} />
    </div>
  );
}

function Runs({ query }: { query: Query }) {
  const { items, next, more, error } = useList<Run>("/runs", query);
  if (error) return <Problem error={error} />;
  if (!items) return <Waiting what="Reading runs" />;
  if (!items.length) return Object.keys(query).length ? <Nothing>Nothing fits what was asked for.</Nothing> : <EmptyCatalogue />;
  return (
    <div className="scroll">
      <table className="list">
        <caption className="unseen">Runs, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Status</th>
            <th scope="col">Reads</th>
            <th scope="col">Writes</th>
            <th scope="col" className="wide-only">
              Started
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((run) => (
            <tr key={run.id}>
              <td>
                <Link className="name" href={`/runs/${encodeURIComponent(run.id)}`}>
                  {runName(run)}
                </Link>
              </td>
              <td>
                <Status status={run.status} />
              </td>
              <td className="number">{run.inputs.length || ""}</td>
              <td className="number">{run.outputs.length || ""}</td>
              <td className="soft wide-only">{when(run.started)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More next={next} more={more} />
    </div>
  );
}

function Traces() {
  const { items, next, more, error } = useList<Trace>("/traces");
  if (error) return <Problem error={error} />;
  if (!items) return <Waiting what="Reading traces" />;
  if (!items.length)
    return (
      <Nothing>
        <h2>No trace is stored</h2>
        <p>
          Keep one from Python with <code>w.backward(df).save("name")</code>, or choose a dataset in a graph and ask for its rows.
        </p>
      </Nothing>
    );
  return (
    <div className="scroll">
      <table className="list">
        <caption className="unseen">Traces, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Trace</th>
            <th scope="col">Status</th>
            <th scope="col">Sources</th>
            <th scope="col" className="wide-only">
              Asked
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((trace) => (
            <tr key={trace.id}>
              <td>
                <Link className="name" href={`/traces/${encodeURIComponent(trace.id)}`}>
                  {trace.name || `Trace ${trace.id}`}
                </Link>
              </td>
              <td>
                <Status status={trace.status} />
              </td>
              <td className="number">{trace.sources?.length || ""}</td>
              <td className="soft wide-only">{when(trace.asked)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More next={next} more={more} />
    </div>
  );
}

function Diagnoses() {
  const { items, next, more, error } = useList<Diagnosis>("/diagnoses");
  if (error) return <Problem error={error} />;
  if (!items) return <Waiting what="Reading diagnoses" />;
  if (!items.length)
    return (
      <Nothing>
        <h2>No diagnosis is stored</h2>
        <p>
          Keep one from Python with <code>whence.diagnose(pipeline, space).save(store)</code>.
        </p>
      </Nothing>
    );
  return (
    <div className="scroll">
      <table className="list">
        <caption className="unseen">Diagnoses, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Diagnosis</th>
            <th scope="col">Causes</th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.id}>
              <td>
                <Link className="name" href={`/diagnoses/${encodeURIComponent(one.id)}`}>
                  {one.name || `Diagnosis ${one.id}`}
                </Link>
              </td>
              <td className="number">{one.causes.length}</td>
              <td className="soft">{when(one.created)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More next={next} more={more} />
    </div>
  );
}
