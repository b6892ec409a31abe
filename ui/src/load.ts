/** Asking from components: one answer for each address, kept for a while so that Back is instant. */

import { useEffect, useState } from "react";
import { ask, Refused, type Query, apiPath } from "./api";

export interface Loaded<T> {
  value: T | null;
  error: Error | null;
  loading: boolean;
}

const KEPT = 40;
const kept = new Map<string, unknown>();

export function keep(key: string, value: unknown): void {
  kept.delete(key);
  kept.set(key, value);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
}

export function forgetAnswers(): void {
  kept.clear();
}

/** Runs `work` when `key` changes; a newer key ends the older work. While it runs the last value stays. */
export function useWork<T>(key: string | null, work: (signal: AbortSignal) => Promise<T>, remember = true): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; value: T | null; error: Error | null }>({
    key: null,
    value: null,
    error: null,
  });
  useEffect(() => {
    if (key === null) return;
    if (kept.has(key)) setState({ key, value: kept.get(key) as T, error: null });
    const ending = new AbortController();
    work(ending.signal).then(
      (value) => {
        if (ending.signal.aborted) return;
        if (remember) keep(key, value);
        setState({ key, value, error: null });
      },
      (error: unknown) => {
        if (ending.signal.aborted) return;
        kept.delete(key);
        setState({ key, value: null, error: asError(error) });
      },
    );
    return () => ending.abort();
    // The key says all that the work depends on.
  }, [key]);
  if (key === null) return { value: null, error: null, loading: false };
  const loading = state.key !== key;
  return { value: state.value, error: loading ? null : state.error, loading };
}

export function useAnswer<T>(path: string | null, query: Query = {}): Loaded<T> {
  const key = path === null ? null : apiPath(path, query);
  return useWork<T>(key, (signal) => ask<T>(path ?? "/", query, signal));
}

export function asError(error: unknown): Error {
  if (error instanceof Refused) return error;
  if (error instanceof TypeError) return new Error("The server does not answer. Is `whence serve` still running?");
  return error instanceof Error ? error : new Error(String(error));
}
