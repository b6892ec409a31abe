/** The address is the state: everything that can be changed by hand is read from it and written to it. */

import { useSyncExternalStore } from "react";

export interface Place {
  path: string;
  query: URLSearchParams;
  href: string;
}

const listeners = new Set<() => void>();
let current: Place = read();

function read(): Place {
  const { pathname, search } = globalThis.location ?? { pathname: "/", search: "" };
  return { path: pathname, query: new URLSearchParams(search), href: pathname + search };
}

function changed(): void {
  current = read();
  for (const listener of listeners) listener();
}

globalThis.addEventListener?.("popstate", changed);

export function go(href: string, how: "push" | "replace" = "push"): void {
  if (href === current.href) return;
  if (how === "push") history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  changed();
}

export function usePlace(): Place {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}

export function address(path: string, query: Record<string, string | null | undefined> | URLSearchParams = {}): string {
  const given = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) if (value) given.set(name, value);
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

/** The same address with some parameters set, or taken away where null. */
export function changedQuery(
  query: URLSearchParams,
  changes: Record<string, string | string[] | null>,
): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    if (Array.isArray(value)) for (const each of value) next.append(name, each);
    else if (value !== null) next.set(name, value);
  }
  return next;
}

export function lineageOf(ref: { namespace: string; name: string }, more: Record<string, string | null> = {}): string {
  return address("/lineage", { namespace: ref.namespace, name: ref.name, ...more });
}

/** What stands behind a page's address: /runs/{id}. */
export function idIn(place: Place, before: string): string {
  const text = place.path.slice(before.length);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
