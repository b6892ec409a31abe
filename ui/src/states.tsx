/** What is said when there is nothing, not yet anything, or an error. */

import type { ReactNode } from "react";
import { Refused } from "./api";
import { Link } from "./link";
import { lineageOf } from "./route";

export function Problem({ error }: { error: Error }) {
  const refused = error instanceof Refused ? error : null;
  return (
    <div className="problem" role="alert">
      <strong>{refused?.title || "Something went wrong"}</strong>
      {(refused ? refused.detail : error.message) && <p>{refused ? refused.detail : error.message}</p>}
      {refused && refused.candidates.length > 0 && (
        <>
          <p>Which one is meant?</p>
          <ul>
            {refused.candidates.map((ref) => (
              <li key={`${ref.namespace} ${ref.name}`}>
                <Link href={lineageOf(ref)}>
                  {ref.name} <small>{ref.namespace}</small>
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

export function Nothing({ children }: { children: ReactNode }) {
  return (
    <div className="nothing" role="status">
      {children}
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <div className="waiting" role="status">
      <span className="dots" aria-hidden="true" />
      {what}
    </div>
  );
}

export function EmptyCatalogue() {
  return (
    <Nothing>
      <h2>This catalogue is empty</h2>
      <p>It fills itself while a Spark session runs with whence attached to this store:</p>
      <pre>
        <code>{`import whence

with whence.attach(spark, store="…") as w:
    ...  # whatever the session reads and writes is noted`}</code>
      </pre>
      <p>
        Or run a script as it is with <code>whence run job.py</code>, or bring OpenLineage events with <code>whence import events.jsonl</code>.
      </p>
    </Nothing>
  );
}
