/** What an address of the page asks for, and how it says so. */

import type { LineageNode, Query } from "../api";
import { isMasked } from "../api";

export type Direction = "backward" | "forward" | "both";

export interface Asked {
  namespace: string | null;
  name: string | null;
  direction: Direction;
  depth: string;
  columns: boolean;
  column: string | null;
  indirect: boolean;
  asOf: string | null;
  limit: string | null;
  /** Datasets whose inputs or outputs were asked for one by one, as tokens. */
  inputs: string[];
  outputs: string[];
  selected: string | null;
  run: string | null;
  all: string[];
}

export const DEFAULT_DEPTH = "3";

export function asked(query: URLSearchParams): Asked {
  const direction = query.get("direction");
  return {
    namespace: query.get("namespace"),
    name: query.get("name"),
    direction: direction === "forward" || direction === "both" ? direction : "backward",
    depth: query.get("depth") ?? DEFAULT_DEPTH,
    columns: query.get("level") === "column" || query.has("column"),
    column: query.get("column"),
    indirect: query.get("indirect") === "true",
    asOf: query.get("as_of"),
    limit: query.get("limit"),
    inputs: query.getAll("inputs"),
    outputs: query.getAll("outputs"),
    selected: query.get("selected"),
    run: query.get("run"),
    all: query.getAll("all"),
  };
}

const PAGE_ONLY = ["inputs", "outputs", "selected", "run", "all"];

/** The parameters for the API: the address as it stands, without what only the page knows; what is wrong the API says. */
export function lineageQuery(query: URLSearchParams): Query {
  const given: Query = {};
  for (const [name, value] of query) if (!PAGE_ONLY.includes(name)) given[name] = value;
  const columns = given.level === "column" || given.column !== undefined;
  given.direction ??= "backward";
  given.depth ??= DEFAULT_DEPTH;
  // Indirect links are many and say little at first.
  if (columns) given.indirect ??= "false";
  else delete given.indirect;
  return given;
}

/** How an address names a dataset: the same for everybody who may see it, unlike its id. */
export function token(node: LineageNode | { id: string; namespace: string; name: string }): string {
  if ("masked" in node && isMasked(node as LineageNode)) return node.id;
  const ref = node as { namespace: string; name: string };
  return `${ref.namespace} ${ref.name}`;
}
