/** The whole graph as a file: a picture with every box and every line, or a table. */

import type { Edge, LineageNode } from "../api";
import { isMasked } from "../api";
import { extentOf, kindColour, paintBox, paintLines, FONT, type Theme } from "./paint";
import { BOX_HEIGHT, ROW_HEIGHT, type Placed } from "./scene";

const MARGIN = 24;
/** What every browser can still draw and keep. */
const LONGEST = 16_000;
const MOST_PIXELS = 80_000_000;

export function asCanvas(placed: Placed, theme: Theme): HTMLCanvasElement {
  const width = placed.size.width + 2 * MARGIN;
  const height = placed.size.height + 2 * MARGIN;
  const k = Math.min(2, LONGEST / width, LONGEST / height, Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * k));
  canvas.height = Math.max(1, Math.round(height * k));
  const context = canvas.getContext("2d")!;
  context.fillStyle = theme.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(k, 0, 0, k, MARGIN * k, MARGIN * k);
  const all = { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
  paintLines(context, placed, extentOf(placed), theme, all, 1, -1, false);
  for (let i = 0; i < placed.scene.boxes.length; i++) paintBox(context, placed, i, theme);
  return canvas;
}

export function asPng(placed: Placed, theme: Theme): Promise<Blob> {
  return new Promise((resolve, reject) => {
    asCanvas(placed, theme).toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("This graph is too large for a PNG here; export it as SVG."))),
      "image/png",
    );
  });
}

function escaped(text: string): string {
  // XML knows no control characters, not even escaped ones.
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .toWellFormed()
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/"/g, "&quot;");
}

const round = (value: number) => Math.round(value * 10) / 10;

export function asSvg(placed: Placed, theme: Theme): string {
  const { boxes, lines } = placed.scene;
  const width = Math.ceil(placed.size.width + 2 * MARGIN);
  const height = Math.ceil(placed.size.height + 2 * MARGIN);
  const curves = extentOf(placed).curves;
  const out: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}" font-family="${escaped(FONT)}">`,
    `<rect x="${-MARGIN}" y="${-MARGIN}" width="${width}" height="${height}" fill="${theme.background}"/>`,
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5z" fill="context-stroke"/></marker></defs>',
    '<g fill="none">',
  ];
  lines.forEach((line, i) => {
    const path = curves[i]!;
    let d = `M${round(path[0]!)} ${round(path[1]!)}`;
    for (let p = 2; p < path.length; p += 6) d += `C${path.slice(p, p + 6).map(round).join(" ")}`;
    const strong = line.path || line.change !== null;
    const colour = line.change ? theme[line.change] : line.path ? theme.accent : theme.line;
    const said = `${boxes[line.from]!.label} → ${boxes[line.to]!.label}`;
    out.push(
      `<path class="edge" d="${d}" stroke="${colour}" stroke-width="${strong ? 2 : 1.25}"${line.indirect ? ' stroke-dasharray="5 4"' : ""} marker-end="url(#end)"><title>${escaped(said)}</title></path>`,
    );
  });
  out.push("</g>");
  boxes.forEach((box, i) => {
    const x = round(placed.x[i]!);
    const y = round(placed.y[i]!);
    const w = placed.width[i]!;
    const border = box.change ? theme[box.change] : box.root ? theme.accent : theme.strong;
    const dash = box.masked || box.dropped ? ' stroke-dasharray="5 4"' : "";
    const below = box.failed ? `${box.below} · failed` : box.below;
    out.push(
      `<g class="node" transform="translate(${x} ${y})"><title>${escaped(box.label)}</title>`,
      `<rect width="${w}" height="${placed.height[i]!}" rx="8" fill="${theme.surface}" stroke="${border}" stroke-width="${box.change || box.root ? 2 : 1}"${dash}/>`,
      `<rect x="1" y="9" width="4" height="${BOX_HEIGHT - 18}" fill="${kindColour(theme, box)}"/>`,
      `<text x="14" y="22" font-size="13" font-weight="600" fill="${theme.text}">${escaped(box.title)}</text>`,
      `<text x="14" y="39" font-size="11.5" fill="${box.failed ? theme.failed : theme.soft}">${escaped(below)}</text>`,
    );
    box.columns.forEach((column, row) => {
      const top = BOX_HEIGHT + row * ROW_HEIGHT;
      if (column.path) out.push(`<rect x="5" y="${top + 1}" width="${w - 10}" height="${ROW_HEIGHT - 2}" fill="${theme.accentSoft}"/>`);
      out.push(`<text x="14" y="${top + 16}" font-size="12" fill="${column.path ? theme.text : theme.soft}">${escaped(column.name)}</text>`);
    });
    if (box.hidden) {
      out.push(`<text x="14" y="${BOX_HEIGHT + box.columns.length * ROW_HEIGHT + 16}" font-size="11.5" fill="${theme.soft}">${box.hidden} more</text>`);
    }
    out.push("</g>");
  });
  out.push("</svg>");
  return out.join("\n");
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export function csvLine(values: unknown[]): string {
  return values.map(cell).join(",") + "\r\n";
}

const NODE_COLUMNS = ["namespace", "name", "kind"];
const HEADER = [
  "row",
  ...NODE_COLUMNS,
  ...["source_namespace", "source", "source_column", "target_namespace", "target", "target_column"],
  ...["link", "subtype", "change", "run", "at"],
];

/** First a row for every dataset, then one for every edge. */
export function asCsv(nodes: LineageNode[], edges: (Edge & { change?: string })[]): string {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const named = (id: string) => {
    const node = byId.get(id);
    return !node || isMasked(node) ? ["masked", id] : [node.namespace, node.name];
  };
  let out = csvLine(HEADER);
  const empty = new Array<null>(HEADER.length - 4).fill(null);
  for (const node of nodes) {
    out += csvLine(isMasked(node) ? ["dataset", "masked", node.id, "masked", ...empty] : ["dataset", node.namespace, node.name, node.kind, ...empty]);
  }
  for (const edge of edges) {
    const [fromSpace, from] = named(edge.source);
    const [toSpace, to] = named(edge.target);
    out += csvLine(
      ["edge", null, null, null, fromSpace, from, edge.source_column, toSpace, to, edge.target_column].concat(
        [edge.kind, edge.subtype, edge.change, edge.run, edge.at] as (string | null)[],
      ),
    );
  }
  return out;
}

export function download(content: Blob | string, name: string, type = "text/plain"): void {
  const blob = content instanceof Blob ? content : new Blob([content], { type: `${type};charset=utf-8` });
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 30_000);
}

export function fileName(name: string, ending: string): string {
  const plain = name.replace(/[^\p{L}\p{N}._-]+/gu, "_").replace(/^[_.]+|_+$/g, "").slice(-80);
  return `${plain || "lineage"}.${ending}`;
}
