/** What the server says, as types, and the one way to ask it. */

export interface Ref {
  id: string;
  namespace: string;
  name: string;
  kind: string;
  masked?: undefined;
}
export interface MaskedRef {
  id: string;
  masked: true;
}
export type AnyRef = Ref | MaskedRef;

export interface NodeInfo {
  depth: number;
  dropped: string | null;
  failed: string | null;
  columns?: string[];
}
export type LineageNode = (Ref & NodeInfo) | (MaskedRef & { depth: number });

export interface Edge {
  source: string;
  target: string;
  kind: string;
  run: string | null;
  at: string | null;
  depth: number;
  source_column?: string | null;
  target_column?: string | null;
  subtype?: string;
  masking?: boolean;
}
export interface Lineage {
  root: string;
  nodes: LineageNode[];
  edges: Edge[];
  truncated: boolean;
}
export interface Difference {
  nodes: LineageNode[];
  added: Edge[];
  removed: Edge[];
  changed: Edge[];
}
export interface Column {
  name: string;
  type: string;
}
export interface Dataset extends Ref {
  version: number;
  created: string | null;
  dropped: string | null;
  columns: Column[];
  aliases?: { namespace: string; name: string }[];
}
export interface Version {
  number: number;
  how: string;
  at: string | null;
  run: string | null;
  external: string | null;
  columns: Column[];
}
export interface Run {
  id: string;
  kind: string;
  status: string;
  started: string | null;
  ended: string | null;
  inputs: AnyRef[];
  outputs: AnyRef[];
  masked?: boolean;
  name?: string;
  error?: string | null;
  application?: string;
  details?: Record<string, unknown>;
  operators?: Record<string, unknown>[];
}
export interface Found {
  type: "dataset" | "column" | "run";
  dataset: Ref | null;
  column: string | null;
  run: { id: string; name: string; status: string } | null;
}
export interface Touched {
  degree: number;
  dataset: AnyRef;
  columns?: (string | null)[];
}
export interface Step {
  number: number;
  operator: string;
  text?: string | null;
  depth: number;
  rows: number | null;
}
export interface Source {
  number: number;
  dataset: AnyRef;
  rows: number | null;
  columns?: (Column | string)[];
}
export interface Trace {
  id: string;
  name?: string | null;
  status: "queued" | "running" | "done" | "failed";
  progress: number | null;
  question: string | Record<string, unknown> | null;
  asked: string | null;
  finished: string | null;
  exact: boolean | null;
  notes?: string[] | null;
  error?: string | null;
  steps: Step[];
  sources: Source[];
  masked?: boolean;
}
export interface Rows {
  columns: Column[];
  items: unknown[][];
  next: string | null;
}
export interface Diagnosis {
  id: string;
  name: string | null;
  created: string | null;
  executions: unknown;
  parameters: unknown;
  causes: { conditions: [string, string, unknown][]; status: string; confidence: number | null }[];
}
export interface Outcome {
  config: Record<string, unknown>;
  succeeded: boolean;
}
export interface List<T> {
  items: T[];
  next: string | null;
}

export function isMasked(ref: AnyRef | LineageNode): ref is MaskedRef & { depth: number } {
  return ref.masked === true;
}

/** What the server refused, in its own words (RFC 9457). */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly candidates: Ref[] = [],
    readonly type: string = "",
  ) {
    super(detail || title);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function apiPath(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") given.set(name, String(value));
  }
  const text = given.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

type Listener = () => void;
const signedOut = new Set<Listener>();

/** Called when an answer says that nobody is signed in. */
export function onSignedOut(listener: Listener): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

const PATIENCE = 4;

async function answered(url: string, options: RequestInit): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(url, { credentials: "same-origin", ...options });
    if (response.status !== 429 || attempt === PATIENCE) return response;
    const wait = Number(response.headers.get("Retry-After") ?? "1");
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(wait, 0.2), 10) * 1000));
  }
}

async function refusal(response: Response): Promise<Refused> {
  try {
    const said = (await response.json()) as Record<string, unknown>;
    const errors = Array.isArray(said.errors) ? (said.errors as { parameter?: string; detail?: string }[]) : [];
    const more = errors.map((e) => [e.parameter, e.detail].filter(Boolean).join(": ")).join("; ");
    const detail = [said.detail, more].filter((part) => typeof part === "string" && part).join(" ");
    const candidates = Array.isArray(said.candidates) ? (said.candidates as Ref[]) : [];
    return new Refused(response.status, String(said.title ?? response.statusText), detail, candidates, String(said.type ?? ""));
  } catch {
    return new Refused(response.status, response.statusText || "The server's answer could not be read", "");
  }
}

async function got(path: string, query: Query, accept: string, signal?: AbortSignal): Promise<Response> {
  const response = await answered(apiPath(path, query), { signal: signal ?? null, headers: { Accept: accept } });
  if (response.status === 401) for (const listener of signedOut) listener();
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function ask<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await got(path, query, "application/json", signal)).json()) as T;
}

/** Whole numbers that JavaScript would round are kept as texts: a row must be shown as it is. */
export function parseExactly(text: string): unknown {
  const kept = text.replace(/"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g, (token) =>
    token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${token}"`,
  );
  return JSON.parse(kept);
}

export async function askRows(path: string, query: Query, signal?: AbortSignal): Promise<Rows> {
  return parseExactly(await (await got(path, query, "application/json", signal)).text()) as Rows;
}

export async function askText(path: string, query: Query = {}): Promise<string> {
  return (await got(path, query, "*/*")).text();
}

export async function send(method: "POST" | "DELETE", path: string, body?: unknown): Promise<Response> {
  const response = await answered(apiPath(path), {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return response;
}

/** Every item of a list, page by page, up to `most`. */
export async function askAll<T>(path: string, query: Query, most: number, signal?: AbortSignal): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = null;
  do {
    const page: List<T> = await ask(path, { ...query, limit: Math.min(1000, most - all.length), cursor }, signal);
    all.push(...page.items);
    cursor = page.next;
  } while (cursor !== null && all.length < most);
  return all;
}
