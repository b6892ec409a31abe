import { useMemo, useState } from "react";
import { ask, askText, isMasked, type List, type Ref, type Touched } from "../api";
import { download, fileName } from "../graph/exports";
import { DatasetLink, Link } from "../link";
import { asError, useWork } from "../load";
import { lineageOf, type Place } from "../route";
import { Nothing, Problem, Waiting } from "../states";
import { many } from "../text";

/** /impact: everything that depends on a dataset or one of its columns, nearest first. */
export function ImpactPage({ place }: { place: Place }) {
  const query = useMemo(() => {
    const given = Object.fromEntries(place.query);
    delete given.format;
    return given;
  }, [place.query]);
  const first = useWork(`impact ${JSON.stringify(query)}`, (signal) => ask<List<Touched>>("/impact", { limit: 1000, ...query }, signal));
  const [rest, setRest] = useState<{ of: unknown; items: Touched[]; next: string | null; error: Error | null } | null>(null);
  const mine = rest && rest.of === first.value ? rest : null;
  const next = mine ? mine.next : (first.value?.next ?? null);
  const items = [...(first.value?.items ?? []), ...(mine?.items ?? [])];
  const more = async () => {
    try {
      const page = await ask<List<Touched>>("/impact", { limit: 1000, ...query, cursor: next });
      setRest({ of: first.value, items: [...(mine?.items ?? []), ...page.items], next: page.next, error: null });
    } catch (failure) {
      setRest({ of: first.value, items: mine?.items ?? [], next, error: asError(failure) });
    }
  };
  const withColumns = query.column !== undefined;
  const { limit: _l, cursor: _c, ...csv } = query;
  const [failed, setFailed] = useState<Error | null>(null);
  const takeAway = async () => {
    setFailed(null);
    try {
      download(await askText("/impact", { ...csv, format: "csv" }), fileName(`impact of ${query.name ?? ""}`, "csv"), "text/csv");
    } catch (failure) {
      setFailed(asError(failure));
    }
  };
  return (
    <main className="page">
      <header className="title">
        <h1>
          What depends on {withColumns ? `${query.column} of ` : ""}
          {query.name}
        </h1>
        <div className="actions">
          <Link href={lineageOf({ namespace: query.namespace ?? "", name: query.name ?? "" }, { direction: "forward", column: query.column ?? null })}>As a graph</Link>
          <button type="button" onClick={() => void takeAway()}>
            Export CSV
          </button>
        </div>
      </header>
      {first.error && <Problem error={first.error} />}
      {failed && <Problem error={failed} />}
      {mine?.error && <Problem error={mine.error} />}
      {!first.value && !first.error && <Waiting what="Following the outputs" />}
      {first.value && !items.length && <Nothing>Nothing is known to be made from it.</Nothing>}
      {items.length > 0 && (
        <div className="scroll">
          <p className="soft">
            {many(items.length, "dataset")}
            {next ? " so far" : ""}; degree 1 reads it directly.
          </p>
          <table className="list" aria-label="Impact">
            <thead>
              <tr>
                <th scope="col">Degree</th>
                <th scope="col">Name</th>
                <th scope="col">Kind</th>
                {withColumns && <th scope="col">Columns</th>}
                <th scope="col" className="wide-only">
                  Namespace
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((touched) => (
                <tr key={touched.dataset.id}>
                  <td className="number">{touched.degree}</td>
                  <td>
                    <DatasetLink dataset={touched.dataset} />
                  </td>
                  <td>{isMasked(touched.dataset) ? "masked" : <span className={`kind kind-${(touched.dataset as Ref).kind}`}>{(touched.dataset as Ref).kind}</span>}</td>
                  {withColumns && <td>{(touched.columns ?? []).map((column) => column ?? "masked").join(", ")}</td>}
                  <td className="soft wide-only">{isMasked(touched.dataset) ? "" : (touched.dataset as Ref).namespace}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {next && (
            <button type="button" className="wide" onClick={more}>
              Show more
            </button>
          )}
        </div>
      )}
    </main>
  );
}
