/** Lists of the API, a page at a time. */

import { useState } from "react";
import { ask, type List, type Query } from "./api";
import { asError, useAnswer } from "./load";

export function useList<T>(path: string, query: Query = {}) {
  const first = useAnswer<List<T>>(path, { limit: 100, ...query });
  const [after, setAfter] = useState<{ of: unknown; items: T[]; next: string | null; error: Error | null } | null>(null);
  const mine = after && after.of === first.value ? after : null;
  const next = mine ? mine.next : (first.value?.next ?? null);
  const more = async () => {
    try {
      const page = await ask<List<T>>(path, { limit: 100, ...query, cursor: next });
      setAfter({ of: first.value, items: [...(mine?.items ?? []), ...page.items], next: page.next, error: null });
    } catch (failure) {
      setAfter({ of: first.value, items: mine?.items ?? [], next, error: asError(failure) });
    }
  };
  const items = first.value ? [...first.value.items, ...(mine?.items ?? [])] : null;
  return { items, next, more, error: first.error ?? mine?.error ?? null };
}

export function More({ next, more }: { next: string | null; more: () => void }) {
  return next ? (
    <button type="button" className="wide" onClick={more}>
      Show more
    </button>
  ) : null;
}
