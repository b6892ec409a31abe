/** A row as a condition in Spark's SQL, so that one can ask whence it came. */

import type { Column } from "../api";

function quoted(text: string): string {
  return `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}'`;
}

function condition({ name, type }: Column, value: unknown): string | null {
  const column = `\`${name.replace(/`/g, "``")}\``;
  const plain = type.toLowerCase();
  if (/^(array|map|struct|binary|variant|interval|void)/.test(plain)) return null;
  if (value === null || value === undefined) return `${column} IS NULL`;
  if (plain === "boolean") return `${column} = ${String(value) === "true"}`;
  if (/^(tinyint|smallint|int|integer|bigint|long|short|byte)$/.test(plain) && /^-?\d+$/.test(String(value))) return `${column} = ${String(value)}`;
  if (/^(string|varchar|char)/.test(plain)) return typeof value === "string" ? `${column} = ${quoted(value)}` : null;
  // What is read back from text must be of a type that Spark knows by this name.
  if (/^(float|double|date|timestamp|timestamp_ntz|timestamp_ltz|decimal(\(\d+, ?\d+\))?)$/.test(plain)) {
    return `${column} = CAST(${quoted(String(value))} AS ${plain})`;
  }
  return null;
}

/** null where no column can be compared. */
export function whereOf(columns: Column[], row: unknown[]): string | null {
  const all = columns.map((column, i) => condition(column, row[i])).filter((each) => each !== null);
  return all.length ? all.join(" AND ") : null;
}
