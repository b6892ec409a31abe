import { type Diagnosis, type Outcome } from "../api";
import { Status } from "../details";
import { More, useList } from "../lists";
import { useAnswer } from "../load";
import { idIn, type Place } from "../route";
import { Nothing, Problem, Waiting } from "../states";
import { many, shown, when } from "../text";

/** /diagnoses/{id}: the conditions that make runs fail, and the runs that told so. */
export function DiagnosisPage({ place }: { place: Place }) {
  const id = idIn(place, "/diagnoses/");
  const { value, error } = useAnswer<Diagnosis>(`/diagnoses/${encodeURIComponent(id)}`);
  if (error || !value) {
    return <main className="page">{error ? <Problem error={error} /> : <Waiting what="Reading the diagnosis" />}</main>;
  }
  return (
    <main className="page">
      <header className="title">
        <h1>{value.name || `Diagnosis ${value.id}`}</h1>
      </header>
      <p className="soft">{[executionsText(value.executions), when(value.created)].filter(Boolean).join(" · ")}</p>
      <section role="region" aria-label="Causes">
        <h2>Causes</h2>
        {!value.causes.length && <Nothing>No cause was found: no setting makes it fail every time.</Nothing>}
        <ol className="causes">
          {value.causes.map((cause, i) => (
            <li key={i}>
              <p className="conditions">
                {cause.conditions.map(([parameter, op, expected], j) => (
                  <span key={j}>
                    {j > 0 && <span className="soft"> and </span>}
                    <code>
                      {parameter} {op} {shown(expected)}
                    </code>
                  </span>
                ))}
              </p>
              <Status status={cause.status} /> {cause.confidence !== null && <small>{Math.round(cause.confidence * 100)} % sure</small>}
            </li>
          ))}
        </ol>
      </section>
      <Parameters parameters={value.parameters} />
      <Executions id={id} />
    </main>
  );
}

function executionsText(executions: unknown): string {
  if (typeof executions === "number") return many(executions, "execution");
  return Array.isArray(executions) ? many(executions.length, "execution") : "";
}

function Parameters({ parameters }: { parameters: unknown }) {
  if (!parameters || typeof parameters !== "object") return null;
  const entries = Array.isArray(parameters) ? parameters.map((each: unknown) => [shown((each as { name?: unknown })?.name ?? each), (each as { values?: unknown })?.values]) : Object.entries(parameters);
  return (
    <section>
      <h2>Parameters</h2>
      <dl className="facts">
        {entries.map(([name, values]) => (
          <div key={String(name)}>
            <dt>{String(name)}</dt>
            <dd>{Array.isArray(values) ? values.map(shown).join(", ") : values === undefined ? "" : shown(values)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Each run with its settings and how it ended; those that failed first. */
function Executions({ id }: { id: string }) {
  const { items, next, more, error } = useList<Outcome>(`/diagnoses/${encodeURIComponent(id)}/runs`);
  if (error) return <Problem error={error} />;
  if (!items?.length) return null;
  const names = [...new Set(items.flatMap((run) => Object.keys(run.config)))];
  return (
    <section role="region" aria-label="Runs">
      <h2>Runs</h2>
      <div className="scroll">
        <table className="list data">
          <thead>
            <tr>
              <th scope="col">outcome</th>
              {names.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {items.map((run, i) => (
              <tr key={i}>
                <td>
                  <Status status={run.succeeded ? "completed" : "failed"} />
                </td>
                {names.map((name) => (
                  <td key={name}>{run.config[name] === undefined ? "" : shown(run.config[name])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <More next={next} more={more} />
    </section>
  );
}
