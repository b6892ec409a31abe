import { useMemo } from "react";
import { type Found, type List } from "../api";
import { Link } from "../link";
import { useAnswer } from "../load";
import { address, type Place } from "../route";
import { foundName, placeOfFound } from "../search-box";
import { Nothing, Problem, Waiting } from "../states";

/** /search?q=: all that was found. */
export function SearchPage({ place }: { place: Place }) {
  const query = useMemo(() => Object.fromEntries(place.query), [place.query]);
  const { value, error } = useAnswer<List<Found>>(query.q ? "/search" : null, query);
  return (
    <main className="page">
      <h1>{query.q ? `“${query.q}”` : "Search"}</h1>
      {!query.q && <Nothing>Type a part of a name above. Press / to get there from anywhere.</Nothing>}
      {error && <Problem error={error} />}
      {query.q && !value && !error && <Waiting what="Searching" />}
      {value && !value.items.length && <Nothing>Nothing has that in its name.</Nothing>}
      <ul className="found">
        {value?.items.map((found, i) => {
          const { name, beside } = foundName(found);
          return (
            <li key={i}>
              <Link className="name" href={placeOfFound(found)}>
                {name}
              </Link>{" "}
              <small>{beside}</small>
            </li>
          );
        })}
      </ul>
      {value?.next && (
        <p>
          <Link href={address("/search", new URLSearchParams({ ...query, cursor: value.next }))}>Next results</Link>
        </p>
      )}
    </main>
  );
}
