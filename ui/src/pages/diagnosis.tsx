import { type Diagnosis } from "../api";
import { Status } from "../details";
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
      <Executions executions={value.executions} />
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

/** Where the runs themselves were kept: each with its settings and how it ended. */
function Executions({ executions }: { executions: unknown }) {
  if (!Array.isArray(executions) || !executions.length) return null;
  const flat = executions.map((each: unknown) => {
    const { config, configuration, parameters, ...rest } = (each ?? {}) as Record<string, unknown>;
    const settings = config ?? configuration ?? parameters;
    return { ...(typeof settings === "object" && settings ? settings : {}), ...rest } as Record<string, unknown>;
  });
  const names = [...new Set(flat.flatMap((row) => Object.keys(row)))];
  return (
    <section role="region" aria-label="Runs">
      <h2>Runs</h2>
      <div className="scroll">
        <table className="list data">
          <thead>
            <tr>
              {names.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {flat.map((row, i) => (
              <tr key={i}>
                {names.map((name) => (
                  <td key={name}>{row[name] === undefined ? "" : shown(row[name])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
