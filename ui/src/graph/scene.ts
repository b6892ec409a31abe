/** What is drawn: boxes and lines, with all that the stage, the painter and the exports need to know about them. */

import type { LayoutInput, LayoutOutput } from "./layout";

export type Change = "added" | "removed" | "changed";

export interface ColumnRow {
  name: string;
  path: boolean;
}

export interface Box {
  id: string;
  /** The whole name: what a screen reader says. */
  label: string;
  title: string;
  below: string;
  kind: string | null;
  masked: boolean;
  failed: boolean;
  dropped: boolean;
  change: Change | null;
  root: boolean;
  columns: ColumnRow[];
  /** Columns that are not drawn, since there are very many. */
  hidden: number;
}

export interface Line {
  from: number;
  to: number;
  /** Rows of columns, or -1 for the box as a whole. */
  fromRow: number;
  toRow: number;
  kind: string;
  run: string | null;
  change: Change | null;
  indirect: boolean;
  path: boolean;
}

export interface Scene {
  boxes: Box[];
  lines: Line[];
  /** Pairs of boxes, each once: what the layout sees, and what is drawn far out. */
  pairs: [number, number][];
  /** For each line the place of its pair; -1 for a line from a box to itself. */
  pairOf: number[];
}

export interface Placed {
  scene: Scene;
  x: number[];
  y: number[];
  width: number[];
  height: number[];
  layers: number[];
  bends: number[][];
  size: { width: number; height: number };
}

export const BOX_WIDTH = 224;
export const BOX_HEIGHT = 50;
export const ROW_HEIGHT = 24;
export const ROWS_FOOT = 6;
const GAP = 22;
const LAYER_GAP = 96;
const TITLE_LENGTH = 27;

export function makeScene(boxes: Box[], lines: Line[]): Scene {
  const pairs: [number, number][] = [];
  const places = new Map<number, number>();
  const pairOf = lines.map((line) => {
    if (line.from === line.to) return -1;
    const key = line.from * boxes.length + line.to;
    let place = places.get(key);
    if (place === undefined) {
      place = pairs.length;
      places.set(key, place);
      pairs.push([line.from, line.to]);
    }
    return place;
  });
  return { boxes, lines, pairs, pairOf };
}

export function boxHeight(box: Box): number {
  const rows = box.columns.length + (box.hidden ? 1 : 0);
  return rows ? BOX_HEIGHT + rows * ROW_HEIGHT + ROWS_FOOT : BOX_HEIGHT;
}

export function layoutInput(scene: Scene): LayoutInput {
  return {
    widths: scene.boxes.map(() => BOX_WIDTH),
    heights: scene.boxes.map(boxHeight),
    edges: scene.pairs,
    gap: GAP,
    layerGap: LAYER_GAP,
  };
}

export function place(scene: Scene, output: LayoutOutput): Placed {
  return {
    scene,
    x: output.x,
    y: output.y,
    width: scene.boxes.map(() => BOX_WIDTH),
    height: scene.boxes.map(boxHeight),
    layers: output.layers,
    bends: output.bends,
    size: { width: output.width, height: output.height },
  };
}

/** Where a line leaves or meets its box, from the top of the box. */
export function portY(row: number): number {
  return row < 0 ? BOX_HEIGHT / 2 : BOX_HEIGHT + row * ROW_HEIGHT + ROW_HEIGHT / 2;
}

/** The points of a line: its ends and what lies between. */
export function points(placed: Placed, line: Line, pair: number): number[] {
  const x0 = placed.x[line.from]! + placed.width[line.from]!;
  const y0 = placed.y[line.from]! + portY(line.fromRow);
  const x1 = placed.x[line.to]!;
  const y1 = placed.y[line.to]! + portY(line.toRow);
  return [x0, y0, ...(pair < 0 ? [] : placed.bends[pair]!), x1, y1];
}

/** A name that fits into a box: whole if it does, else its last parts, else its two ends. */
export function shortName(name: string, most = TITLE_LENGTH): string {
  const plain = name.replace(/\s+/g, " ").trim();
  const letters = [...plain];
  if (letters.length <= most) return plain;
  const parts = plain.split(/(?<=[/.])/);
  let tail = "";
  for (let i = parts.length - 1; i >= 0; i--) {
    if ([...(parts[i] + tail)].length > most - 1) break;
    tail = parts[i] + tail;
  }
  if (tail) return "…" + tail;
  const head = Math.ceil((most - 1) * 0.6);
  return letters.slice(0, head).join("") + "…" + letters.slice(letters.length - (most - 1 - head)).join("");
}

/** A curve through the points, level at its ends: the numbers of one moveTo and several bezierCurveTo. */
export function curve(at: number[]): number[] {
  const out = [at[0]!, at[1]!];
  for (let i = 2; i < at.length; i += 2) {
    const x0 = at[i - 2]!;
    const y0 = at[i - 1]!;
    const x1 = at[i]!;
    const y1 = at[i + 1]!;
    // A line that goes back (a cycle) swings out before it returns.
    const reach = x1 > x0 ? (x1 - x0) / 2 : Math.min(160, 40 + (x0 - x1) / 3);
    out.push(x0 + reach, y0, x1 - reach, y1, x1, y1);
  }
  return out;
}
