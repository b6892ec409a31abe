/** Draws on a canvas: the lines behind the boxes, plain boxes far out, whole pictures for export and the mini map. */

import { BOX_HEIGHT, ROW_HEIGHT, curve, points, shortName, type Box, type Line, type Placed } from "./scene";

export interface Theme {
  background: string;
  surface: string;
  border: string;
  strong: string;
  text: string;
  soft: string;
  line: string;
  faint: string;
  accent: string;
  accentSoft: string;
  added: string;
  removed: string;
  changed: string;
  failed: string;
  kinds: Record<string, string>;
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';

const KINDS = ["table", "view", "path", "topic", "model", "step", "other"];

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    background: get("background"),
    surface: get("surface"),
    border: get("border"),
    strong: get("border-strong"),
    text: get("text"),
    soft: get("text-soft"),
    line: get("line"),
    faint: get("line-faint"),
    accent: get("accent"),
    accentSoft: get("accent-soft"),
    added: get("added"),
    removed: get("removed"),
    changed: get("changed"),
    failed: get("failed"),
    kinds: Object.fromEntries(KINDS.map((kind) => [kind, get(`kind-${kind}`)])),
  };
}

export function kindColour(theme: Theme, box: Box): string {
  if (box.masked) return theme.soft;
  return theme.kinds[box.kind ?? "other"] || theme.kinds.other!;
}

export interface View {
  x: number;
  y: number;
  k: number;
}

export const FAR = 0.42;
const HAIRLINE = 0.2;

function lineColour(theme: Theme, line: Line): string {
  if (line.change) return theme[line.change];
  return line.path ? theme.accent : theme.line;
}

interface Stroke {
  colour: string;
  dashed: boolean;
  strong: boolean;
  lines: number[];
}

export interface Extent {
  left: Float64Array;
  right: Float64Array;
  top: Float64Array;
  bottom: Float64Array;
  curves: number[][];
}

/** The curve and the surrounding box of every line, made once for each layout. */
export function extentOf(placed: Placed): Extent {
  const { lines, pairOf } = placed.scene;
  const n = lines.length;
  const extent: Extent = {
    left: new Float64Array(n),
    right: new Float64Array(n),
    top: new Float64Array(n),
    bottom: new Float64Array(n),
    curves: new Array<number[]>(n),
  };
  lines.forEach((line, i) => {
    const path = curve(points(placed, line, pairOf[i]!));
    let left = Infinity;
    let right = -Infinity;
    let top = Infinity;
    let bottom = -Infinity;
    for (let p = 0; p < path.length; p += 2) {
      left = Math.min(left, path[p]!);
      right = Math.max(right, path[p]!);
      top = Math.min(top, path[p + 1]!);
      bottom = Math.max(bottom, path[p + 1]!);
    }
    extent.left[i] = left;
    extent.right[i] = right;
    extent.top[i] = top;
    extent.bottom[i] = bottom;
    extent.curves[i] = path;
  });
  return extent;
}

export interface Rect {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function paintLines(
  context: CanvasRenderingContext2D,
  placed: Placed,
  extent: Extent,
  theme: Theme,
  rect: Rect,
  k: number,
  /** The selected box, whose lines stand out. */
  chosen: number,
  /** Lines between columns are drawn as one between their boxes. */
  merged: boolean,
): void {
  const { lines } = placed.scene;
  const strokes = new Map<string, Stroke>();
  const seen = merged ? new Set<number>() : null;
  for (let i = 0; i < lines.length; i++) {
    if (extent.right[i]! < rect.left || extent.left[i]! > rect.right) continue;
    if (extent.bottom[i]! < rect.top || extent.top[i]! > rect.bottom) continue;
    const line = lines[i]!;
    const strong = line.path || line.change !== null || line.from === chosen || line.to === chosen;
    if (seen && !strong) {
      // Far out all lines between two boxes look like one.
      const pair = placed.scene.pairOf[i]!;
      if (seen.has(pair)) continue;
      seen.add(pair);
    }
    const colour = strong && !line.change ? theme.accent : lineColour(theme, line);
    const key = `${colour}${line.indirect}${strong}`;
    let stroke = strokes.get(key);
    if (!stroke) strokes.set(key, (stroke = { colour, dashed: line.indirect, strong, lines: [] }));
    stroke.lines.push(i);
  }
  const plain = k < HAIRLINE;
  for (const stroke of [...strokes.values()].sort((a, b) => Number(a.strong) - Number(b.strong))) {
    context.strokeStyle = stroke.colour;
    context.lineWidth = (stroke.strong ? 2 : 1.25) / Math.min(1, Math.max(k, 0.02) * 1.4);
    context.setLineDash(stroke.dashed && !plain ? [5, 4] : []);
    context.beginPath();
    for (const i of stroke.lines) {
      const path = extent.curves[i]!;
      context.moveTo(path[0]!, path[1]!);
      if (plain) for (let p = 6; p < path.length; p += 6) context.lineTo(path[p]!, path[p + 1]!);
      else
        for (let p = 2; p < path.length; p += 6)
          context.bezierCurveTo(path[p]!, path[p + 1]!, path[p + 2]!, path[p + 3]!, path[p + 4]!, path[p + 5]!);
    }
    context.stroke();
    if (!plain) arrows(context, stroke, extent);
  }
  context.setLineDash([]);
}

function arrows(context: CanvasRenderingContext2D, stroke: Stroke, extent: Extent): void {
  context.fillStyle = stroke.colour;
  context.beginPath();
  for (const i of stroke.lines) {
    const path = extent.curves[i]!;
    const x = path[path.length - 2]!;
    const y = path[path.length - 1]!;
    context.moveTo(x, y);
    context.lineTo(x - 7, y - 3.5);
    context.lineTo(x - 7, y + 3.5);
    context.closePath();
  }
  context.fill();
}

const WORDS = 0.16;
const SCREEN_LETTER = 9.5;

/** Boxes for when their buttons' words would be too small: a few large letters, and none at all further out. */
export function paintPlainBoxes(
  context: CanvasRenderingContext2D,
  placed: Placed,
  theme: Theme,
  rect: Rect,
  chosen: number,
  k: number,
): void {
  const { boxes } = placed.scene;
  for (let i = 0; i < boxes.length; i++) {
    const x = placed.x[i]!;
    const y = placed.y[i]!;
    const w = placed.width[i]!;
    const h = placed.height[i]!;
    if (x > rect.right || x + w < rect.left || y > rect.bottom || y + h < rect.top) continue;
    const box = boxes[i]!;
    context.fillStyle = box.change ? theme[box.change] : i === chosen ? theme.accent : theme.surface;
    context.fillRect(x, y, w, h);
    context.fillStyle = box.failed ? theme.failed : kindColour(theme, box);
    context.fillRect(x, y, Math.max(6, 3 / k), h);
    context.lineWidth = Math.max(1, 1 / k);
    context.strokeStyle = box.root || i === chosen ? theme.accent : theme.strong;
    context.strokeRect(x, y, w, h);
    if (k < WORDS) continue;
    const letter = Math.min(32, SCREEN_LETTER / k);
    context.font = `600 ${letter}px ${FONT}`;
    context.textBaseline = "middle";
    context.fillStyle = box.change || i === chosen ? theme.surface : box.masked ? theme.soft : theme.text;
    context.fillText(shortName(box.label, Math.floor((w - 26) / (letter * 0.56))), x + 16, y + Math.min(h, BOX_HEIGHT) / 2, w - 22);
  }
}

/** What belongs to the selected box, on top of a picture that knows nothing of it. */
export function paintChosen(
  context: CanvasRenderingContext2D,
  placed: Placed,
  extent: Extent,
  theme: Theme,
  rect: Rect,
  chosen: number,
  k: number,
): void {
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.6 / k;
  context.beginPath();
  placed.scene.lines.forEach((line, i) => {
    if (line.from !== chosen && line.to !== chosen) return;
    const path = extent.curves[i]!;
    context.moveTo(path[0]!, path[1]!);
    for (let p = 6; p < path.length; p += 6) context.lineTo(path[p]!, path[p + 1]!);
  });
  context.stroke();
  const [x, y, w, h] = [placed.x[chosen]!, placed.y[chosen]!, placed.width[chosen]!, placed.height[chosen]!];
  if (x > rect.right || x + w < rect.left || y > rect.bottom || y + h < rect.top) return;
  context.fillStyle = theme.accent;
  const edge = 2 / k;
  context.fillRect(x - edge, y - edge, w + 2 * edge, h + 2 * edge);
}

/** A box with its words, as the exported picture has it. */
export function paintBox(context: CanvasRenderingContext2D, placed: Placed, i: number, theme: Theme): void {
  const box = placed.scene.boxes[i]!;
  const x = placed.x[i]!;
  const y = placed.y[i]!;
  const w = placed.width[i]!;
  const h = placed.height[i]!;
  context.fillStyle = theme.surface;
  context.strokeStyle = box.change ? theme[box.change] : box.root ? theme.accent : theme.strong;
  context.lineWidth = box.change || box.root ? 2 : 1;
  context.setLineDash(box.masked || box.dropped ? [5, 4] : []);
  context.beginPath();
  context.roundRect(x, y, w, h, 8);
  context.fill();
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = kindColour(theme, box);
  context.fillRect(x + 1, y + 9, 4, BOX_HEIGHT - 18);
  context.textBaseline = "middle";
  context.fillStyle = theme.text;
  context.font = `600 13px ${FONT}`;
  context.fillText(box.title, x + 14, y + 18, w - 24);
  context.fillStyle = box.failed ? theme.failed : theme.soft;
  context.font = `11.5px ${FONT}`;
  context.fillText(box.failed ? `${box.below} · failed` : box.below, x + 14, y + 35, w - 24);
  box.columns.forEach((column, row) => {
    const middle = y + BOX_HEIGHT + row * ROW_HEIGHT + ROW_HEIGHT / 2;
    if (column.path) {
      context.fillStyle = theme.accentSoft;
      context.fillRect(x + 5, middle - ROW_HEIGHT / 2 + 1, w - 10, ROW_HEIGHT - 2);
    }
    context.fillStyle = column.path ? theme.text : theme.soft;
    context.font = `12px ${FONT}`;
    context.fillText(column.name.replace(/\s+/g, " "), x + 14, middle, w - 24);
  });
  if (box.hidden) {
    context.fillStyle = theme.soft;
    context.font = `11.5px ${FONT}`;
    context.fillText(`${box.hidden} more`, x + 14, y + BOX_HEIGHT + box.columns.length * ROW_HEIGHT + ROW_HEIGHT / 2, w - 24);
  }
}
