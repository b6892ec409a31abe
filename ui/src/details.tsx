/** The panel beside the graph: one dataset or one run. */

import { useEffect, useState, type ReactNode } from "react";
import { send, type AnyRef, type Dataset, type List, type Ref, type Run, type Trace, type Version } from "./api";
import { DatasetLink, Link } from "./link";
import { useAnswer, asError } from "./load";
import { address, go, lineageOf } from "./route";
import { Problem, Waiting } from "./states";
import { many, shown, took, when } from "./text";

function Panel(props: { title: string; kind: string; onClose?: (() => void) | undefined; children: ReactNode }) {
  const { onClose } = props;
  useEffect(() => {
    if (!onClose) return;
    const close = (event: KeyboardEvent) => event.key === "Escape" && onClose();
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [onClose]);
  return (
    <aside className="details" role="region" aria-label="Details">
      <header>
        <div>
          <p className="eyebrow">{props.kind}</p>
          <h2>{props.title}</h2>
        </div>
        {props.onClose && (
          <button type="button" className="close" aria-label="Close" title="Close (Escape)" onClick={props.onClose}>
            ×
          </button>
        )}
      </header>
      {props.children}
    </aside>
  );
}

export function DatasetDetails({ dataset, asOf, onClose }: { dataset: Ref; asOf: string | null; onClose?: () => void }) {
  const one = { namespace: dataset.namespace, name: dataset.name };
  const whole = useAnswer<Dataset>("/dataset", { ...one, as_of: asOf });
  const versions = useAnswer<List<Version>>("/versions", { ...one, limit: 20 });
  const runs = useAnswer<List<Run>>("/runs", { ...one, limit: 10 });
  const traces = useAnswer<List<Trace>>("/traces", { limit: 100 });
  const others = (whole.value?.aliases ?? []).filter((alias) => alias.name !== dataset.name || alias.namespace !== dataset.namespace);
  const about = (traces.value?.items ?? []).filter((trace) => isAbout(trace, dataset));
  return (
    <Panel title={dataset.name} kind={dataset.kind} onClose={onClose}>
      <nav className="actions" aria-label="About this dataset">
        <Link href={lineageOf(dataset)}>Lineage from here</Link>
        <Link href={address("/impact", one)}>Impact</Link>
        <a href="#traces">Traces</a>
      </nav>
      {whole.error && <Problem error={whole.error} />}
      <dl className="facts">
        <dt>Kind</dt>
        <dd>{dataset.kind}</dd>
        <dt>Namespace</dt>
        <dd>{dataset.namespace}</dd>
        {whole.value && (
          <>
            <dt>Version</dt>
            <dd>{whole.value.version}</dd>
            {whole.value.created && (
              <>
                <dt>Created</dt>
                <dd>{when(whole.value.created)}</dd>
              </>
            )}
            {whole.value.dropped && (
              <>
                <dt>Dropped</dt>
                <dd>{when(whole.value.dropped)}</dd>
              </>
            )}
            {others.length > 0 && (
              <>
                <dt>Also known as</dt>
                <dd>{others.map((alias) => alias.name).join(", ")}</dd>
              </>
            )}
          </>
        )}
      </dl>
      <section>
        <h3>Columns</h3>
        {whole.value && !whole.value.columns.length && <p className="soft">None are known.</p>}
        {(whole.value?.columns.length ?? 0) > 0 && (
          <table className="plain">
            <tbody>
              {whole.value!.columns.map((column) => (
                <tr key={column.name}>
                  <th scope="row">
                    <Link href={lineageOf(dataset, { level: "column", column: column.name, direction: "both" })}>{column.name}</Link>
                  </th>
                  <td>{column.type}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      <section>
        <h3>Versions</h3>
        {versions.loading && !versions.value && <Waiting what="Reading versions" />}
        {versions.value && !versions.value.items.length && <p className="soft">It was read, but never seen being written.</p>}
        <ul className="lines">
          {versions.value?.items.map((version) => (
            <li key={version.number}>
              <Link href={lineageOf(dataset, { as_of: version.at })} title="The lineage of that time">
                Version {version.number}
              </Link>{" "}
              {version.how} <small>{when(version.at)}</small>
              {version.run && (
                <>
                  {" "}
                  <Link href={`/runs/${encodeURIComponent(version.run)}`}>run</Link>
                </>
              )}
            </li>
          ))}
        </ul>
        {versions.value?.next && <p className="soft">The newest {versions.value.items.length} are shown.</p>}
      </section>
      <section>
        <h3>Runs</h3>
        {runs.value && !runs.value.items.length && <p className="soft">No run is known.</p>}
        <ul className="lines">
          {runs.value?.items.map((run) => (
            <li key={run.id}>
              <Link href={`/runs/${encodeURIComponent(run.id)}`}>{runName(run)}</Link> <Status status={run.status} />{" "}
              <small>{when(run.ended ?? run.started)}</small>
            </li>
          ))}
        </ul>
      </section>
      <section id="traces">
        <h3>Traces</h3>
        <ul className="lines">
          {about.map((trace) => (
            <li key={trace.id}>
              <Link href={`/traces/${encodeURIComponent(trace.id)}`}>{trace.name || `Trace ${trace.id}`}</Link> <Status status={trace.status} />
            </li>
          ))}
        </ul>
        <AskRows dataset={dataset} />
      </section>
    </Panel>
  );
}

function isAbout(trace: Trace, dataset: Ref): boolean {
  const asked = trace.question as { namespace?: unknown; name?: unknown } | null;
  const named = typeof asked === "object" && asked?.name === dataset.name && asked.namespace === dataset.namespace;
  return named || (trace.sources ?? []).some((source) => source.dataset.id === dataset.id);
}

/** From a table down to its rows: a question that the next attached session works off. */
function AskRows({ dataset }: { dataset: Ref }) {
  const [where, setWhere] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [sending, setSending] = useState(false);
  const submit = async (event: React.FormEvent) => {
    event.preventDefault();
    setSending(true);
    setError(null);
    try {
      go(await askTrace(dataset, where.trim() || null));
    } catch (failure) {
      setError(asError(failure));
    } finally {
      setSending(false);
    }
  };
  return (
    <form className="ask" onSubmit={submit}>
      <label>
        Which rows made these? <small>A condition, such as total &lt; 0</small>
        <input name="where" value={where} onChange={(event) => setWhere(event.target.value)} placeholder="all rows" autoComplete="off" />
      </label>
      <button type="submit" disabled={sending}>
        Trace rows
      </button>
      {error && <Problem error={error} />}
    </form>
  );
}

/** Asks for a trace; gives the address where it will be. */
export async function askTrace(dataset: Ref, where: string | null): Promise<string> {
  const question = { question: "backward", namespace: dataset.namespace, name: dataset.name };
  const response = await send("POST", "/traces", where ? { ...question, where } : question);
  const trace = (await response.json()) as Trace;
  return `/traces/${encodeURIComponent(trace.id)}`;
}

export function Status({ status }: { status: string }) {
  return <span className={`status ${status}`}>{status}</span>;
}

export function runName(run: Run): string {
  return run.masked ? `${run.kind} (masked)` : run.name || run.kind || run.id;
}

function Refs({ refs }: { refs: AnyRef[] }) {
  if (!refs.length) return <p className="soft">None.</p>;
  return (
    <ul className="lines">
      {refs.map((ref) => (
        <li key={ref.id}>
          <DatasetLink dataset={ref} />
        </li>
      ))}
    </ul>
  );
}

export function RunDetails({ id, onClose }: { id: string; onClose?: () => void }) {
  const answer = useAnswer<Run>(`/runs/${encodeURIComponent(id)}`);
  if (answer.error) {
    return (
      <Panel title="Run" kind="run" onClose={onClose}>
        <Problem error={answer.error} />
      </Panel>
    );
  }
  const run = answer.value;
  if (!run) return null;
  const details = Object.entries(run.details ?? {}).filter(([, value]) => value !== null && value !== "");
  return (
    <Panel title={run.masked ? `Run ${run.id}` : run.name || run.id} kind={`${run.kind} run`} onClose={onClose}>
      {onClose && (
        <nav className="actions" aria-label="About this run">
          <Link href={`/runs/${encodeURIComponent(id)}`}>Open this run</Link>
        </nav>
      )}
      {run.masked && <p className="soft">It touched datasets that you may not see, so little can be said about it.</p>}
      <dl className="facts">
        <dt>Status</dt>
        <dd>
          <Status status={run.status} />
        </dd>
        {run.started && (
          <>
            <dt>Started</dt>
            <dd>{when(run.started)}</dd>
          </>
        )}
        {took(run.started, run.ended) && (
          <>
            <dt>Took</dt>
            <dd>{took(run.started, run.ended)}</dd>
          </>
        )}
        {run.application && (
          <>
            <dt>Application</dt>
            <dd>{run.application}</dd>
          </>
        )}
      </dl>
      {run.error && (
        <section>
          <h3>Error</h3>
          <pre className="text">{run.error}</pre>
        </section>
      )}
      <section>
        <h3>Inputs</h3>
        <Refs refs={run.inputs} />
      </section>
      <section>
        <h3>Outputs</h3>
        <Refs refs={run.outputs} />
      </section>
      {details.length > 0 && (
        <section>
          <h3>More</h3>
          <dl className="facts wide">
            {details.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <pre className="text">{shown(value)}</pre>
                </dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {(run.operators?.length ?? 0) > 0 && (
        <section>
          <h3>{many(run.operators!.length, "operator")}</h3>
          <ol className="lines">
            {run.operators!.map((operator, i) => (
              <li key={i}>
                {shown(operator.name ?? operator.kind ?? "")} <small>{shown(operator.kind ?? "")}</small>
              </li>
            ))}
          </ol>
        </section>
      )}
    </Panel>
  );
}

export function MaskedDetails({ onClose }: { onClose: () => void }) {
  return (
    <Panel title="masked" kind="dataset" onClose={onClose}>
      <p>There is a dataset here that you may not see. The lineage goes through it and on.</p>
    </Panel>
  );
}
