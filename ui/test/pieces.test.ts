import { expect, test } from "vitest";
import { parseExactly, type Edge, type Lineage, type LineageNode } from "../src/api";
import { asCsv, asSvg, fileName } from "../src/graph/exports";
import { firstView, seen, showing, zoomed } from "../src/graph/camera";
import { lineAt } from "../src/graph/hit";
import { neighbour } from "../src/graph/keys";
import { layout } from "../src/graph/layout";
import { extentOf, type Theme } from "../src/graph/paint";
import { layoutInput, place, shortName, type Placed } from "../src/graph/scene";
import { merged } from "../src/lineage/answer";
import { asked, lineageQuery, token } from "../src/lineage/asked";
import { nodeChanges } from "../src/lineage/diff";
import { changesOnly, placeOf } from "../src/lineage/moments";
import { columnKey, MOST_ROWS, pathOf, sceneOf } from "../src/lineage/scene-of";
import { pathThrough } from "../src/notebook/notebook";
import { safeNext } from "../src/pages/login";
import { stepScene } from "../src/pages/steps";
import { whereOf } from "../src/pages/where";
import { nextTurn } from "../src/pace";
import { changedQuery } from "../src/route";

const node = (id: string, more: object = {}): LineageNode =>
  ({ id, namespace: "n", name: id, kind: "table", depth: 0, dropped: null, failed: null, ...more }) as LineageNode;
const edge = (source: string, target: string, more: object = {}): Edge => ({ source, target, kind: "write", run: "r", at: null, depth: 1, ...more });
const columnEdge = (source: string, from: string, target: string, to: string, kind = "DIRECT") => edge(source, target, { kind, source_column: from, target_column: to });

function placed(nodes: LineageNode[], edges: Edge[], columns = false): Placed {
  const scene = sceneOf({ root: nodes[0]?.id ?? null, nodes, edges, columns, path: new Set() });
  return place(scene, layout(layoutInput(scene)));
}
const theme = { kinds: { other: "#777" } } as unknown as Theme;

test("names are cut so that what tells them apart stays", () => {
  expect(shortName("orders")).toBe("orders");
  expect(shortName("two\nlines")).toBe("two lines");
  expect(shortName("warehouse.finance.quarterly.report_2026")).toBe("…quarterly.report_2026");
  expect([...shortName("x".repeat(500))]).toHaveLength(27);
  expect([...shortName("🦆".repeat(60))]).toHaveLength(27);
});

test("numbers of rows are never rounded", () => {
  expect(parseExactly('[9007199254740993, -9223372036854775808, 12, 0.12345678901234567, 1e20, "9007199254740993 \\" 9007199254740993"]')).toEqual([
    "9007199254740993",
    "-9223372036854775808",
    12,
    0.12345678901234567,
    1e20,
    '9007199254740993 " 9007199254740993',
  ]);
});

test("a row becomes a condition that finds it again", () => {
  const columns = [
    { name: "id", type: "bigint" },
    { name: "it's `odd`", type: "string" },
    { name: "day", type: "date" },
    { name: "tags", type: "array<string>" },
    { name: "gone", type: "string" },
    { name: "x", type: "double" },
  ];
  expect(whereOf(columns, ["9007199254740993", "O'Neil \\ co", "2026-01-01", ["a"], null, 1.5])).toBe(
    "`id` = 9007199254740993 AND `it's ``odd``` = 'O\\'Neil \\\\ co' AND `day` = CAST('2026-01-01' AS date) AND `gone` IS NULL AND `x` = CAST('1.5' AS double)",
  );
  expect(whereOf([{ name: "tags", type: "array<string>" }], [["a"]])).toBeNull();
});

test("after signing in a link leads nowhere else", () => {
  expect(safeNext("/lineage?name=a")).toBe("/lineage?name=a");
  for (const bad of ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", null]) expect(safeNext(bad)).toBe("/");
});

test("the API is asked what the address says, without what only the page knows", () => {
  const query = new URLSearchParams("name=a&selected=n+a&inputs=n+b&level=column&depth=2");
  expect(lineageQuery(query)).toEqual({ name: "a", level: "column", depth: "2", direction: "backward", indirect: "false" });
  expect(lineageQuery(new URLSearchParams("name=a&indirect=true"))).toEqual({ name: "a", depth: "3", direction: "backward" });
  expect(asked(query)).toMatchObject({ columns: true, selected: "n a", inputs: ["n b"] });
  expect(changedQuery(query, { selected: null, inputs: ["x", "y"] }).toString()).toBe("name=a&level=column&depth=2&inputs=x&inputs=y");
  expect(token({ id: "m1", masked: true, depth: 0 })).toBe("m1");
});

test("a step that was asked for joins what is shown, once", () => {
  const first: Lineage = { root: "a", nodes: [node("a"), node("b")], edges: [edge("b", "a")], truncated: false };
  const second: Lineage = { root: "b", nodes: [node("b"), node("c")], edges: [edge("c", "b"), edge("b", "a")], truncated: false };
  const both = merged(first, second);
  expect(both.nodes.map((each) => each.id)).toEqual(["a", "b", "c"]);
  expect(both.edges).toHaveLength(2);
});

test("moments are those at which the graph differs from the one before", () => {
  const graphs = new Map([
    ["2026-01-01T00:00:02+00:00", "b"],
    ["2026-01-01T00:00:01+00:00", "a"],
    ["2026-01-01T00:00:03+00:00", "b"],
    ["2026-01-01T00:00:03.000001+00:00", "c"],
  ]);
  const moments = changesOnly(graphs);
  expect(moments).toEqual(["2026-01-01T00:00:01+00:00", "2026-01-01T00:00:02+00:00", "2026-01-01T00:00:03.000001+00:00"]);
  expect(placeOf(moments, null)).toBe(3);
  expect(placeOf(moments, "2026-01-01T00:00:02Z")).toBe(1);
  expect(placeOf(moments, "2026-01-01T00:00:02.5Z")).toBe(1.5);
  expect(placeOf(moments, "2025-01-01T00:00:00Z")).toBe(-0.5);
  expect(placeOf(moments, "2027-01-01T00:00:00Z")).toBe(3);
});

test("a dataset is added, removed, or made of other things", () => {
  const difference = { nodes: [node("new"), node("old"), node("t")], added: [edge("new", "t")], removed: [edge("old", "t")], changed: [] };
  const graph = (...ids: string[]): Lineage => ({ root: "t", nodes: ids.map((id) => node(id)), edges: [], truncated: false });
  const changes = nodeChanges({ difference, before: graph("t", "old"), after: graph("t", "new") });
  expect(Object.fromEntries(changes)).toEqual({ new: "added", old: "removed", t: "changed" });
});

test("very many columns: those with links are shown, the others counted", () => {
  const names = Array.from({ length: 100 }, (_, i) => `c${i}`);
  const shown = { root: "a", nodes: [node("a", { columns: names }), node("b", { columns: ["x"] })], edges: [columnEdge("a", "c99", "b", "x")], columns: true, path: new Set<string>() };
  const box = sceneOf(shown).boxes[0]!;
  expect(box.columns).toHaveLength(MOST_ROWS);
  expect(box.hidden).toBe(100 - MOST_ROWS);
  expect(box.columns.map((column) => column.name)).toContain("c99");
  expect(sceneOf({ ...shown, allColumns: new Set(["a"]) }).boxes[0]!.columns).toHaveLength(100);
});

test("a column's path is every end of its links, a masked one apart", () => {
  const edges = [columnEdge("a", "x", "b", "y"), { ...columnEdge("m", "", "a", "x"), source_column: null }];
  expect(pathOf("b", "y", edges)).toEqual(new Set([columnKey("b", "y"), columnKey("a", "x")]));
  expect(pathOf("b", null, edges).size).toBe(0);
});

test("the path through a column goes both ways, but not back again", () => {
  const edges = [columnEdge("a", "x", "b", "y"), columnEdge("b", "y", "c", "z"), columnEdge("a", "x", "d", "w"), columnEdge("e", "v", "c", "z")];
  expect(pathThrough(edges, "b", "y")).toEqual(new Set([columnKey("b", "y"), columnKey("a", "x"), columnKey("c", "z")]));
});

test("arrows go to what is connected, then to what is beside", () => {
  const picture = placed([node("t"), node("a"), node("b"), node("c")], [edge("a", "t"), edge("b", "t"), edge("c", "a")]);
  const [t, a, b, c] = [0, 1, 2, 3];
  expect([a, b]).toContain(neighbour(picture, t, "ArrowLeft"));
  expect(neighbour(picture, a, "ArrowLeft")).toBe(c);
  expect(neighbour(picture, c, "ArrowRight")).toBe(a);
  const down = picture.y[b]! > picture.y[a]! ? "ArrowDown" : "ArrowUp";
  expect(neighbour(picture, a, down)).toBe(b);
  expect(neighbour(picture, t, "ArrowRight")).toBeNull();
});

test("fifty boxes are all in the first view; a zoom keeps what is under the pointer", () => {
  const nodes = Array.from({ length: 50 }, (_, i) => node(`d${i}`));
  const picture = placed(nodes, nodes.slice(1).map((each, i) => edge(each.id, `d${Math.floor(i / 2)}`)));
  const screen = { width: 400, height: 500 };
  const view = firstView(picture, screen);
  const part = seen(view, screen);
  picture.x.forEach((x, i) => {
    expect(x >= part.left && x + picture.width[i]! <= part.right && picture.y[i]! >= part.top).toBe(true);
  });
  const nearer = zoomed(view, 2, { x: 100, y: 100 }, picture.size, screen);
  expect((100 - nearer.x) / nearer.k).toBeCloseTo((100 - view.x) / view.k, 6);
  const brought = showing({ k: 1, x: -99999, y: 0 }, picture, 0, screen);
  expect(picture.x[0]! + brought.x).toBeGreaterThanOrEqual(0);
});

test("a line is found where it runs and nowhere else", () => {
  const picture = placed([node("t"), node("a")], [edge("a", "t")]);
  const extent = extentOf(picture);
  const x = (picture.x[1]! + picture.width[1]! + picture.x[0]!) / 2;
  expect(lineAt(extent, x, picture.y[0]! + 25, 4)).toBe(0);
  expect(lineAt(extent, x, picture.y[0]! + 60, 4)).toBe(-1);
});

test("exports hold every dataset and every edge, and names are only text", () => {
  const nodes = [node("t"), node("<img src=x>"), { id: "m", masked: true, depth: 1 } as LineageNode];
  const edges = [edge("<img src=x>", "t"), edge("m", "t")];
  const drawing = asSvg(placed(nodes, edges), theme);
  expect(drawing.match(/class="node"/g)).toHaveLength(3);
  expect(drawing.match(/class="edge"/g)).toHaveLength(2);
  expect(drawing).not.toContain("<img");
  expect(drawing).toContain("&lt;img src=x&gt;");
  const table = asCsv([node('a "b",\nc'), ...nodes], edges).split("\r\n");
  expect(table[1]).toContain('"a ""b"",\nc"');
  expect(table.filter((line) => line.startsWith("edge,"))).toHaveLength(2);
  expect(table.find((line) => line.startsWith("edge,") && line.includes("masked"))).toContain("masked,m,");
  expect(fileName("../../etc/passwd", "csv")).toBe("etc_passwd.csv");
  expect(fileName("🦆", "svg")).toBe("lineage.svg");
});

test("indented steps become a tree that flows to the result", () => {
  const step = (number: number, depth: number) => ({ number, operator: `s${number}`, text: null, depth, rows: number });
  const scene = stepScene([step(1, 0), step(2, 1), step(3, 2), step(4, 2), step(5, 1)]);
  expect(scene.pairs).toEqual([[1, 0], [2, 1], [3, 1], [4, 0]]);
});

test("what is asked in the background keeps below the server's limit", () => {
  let worst = 0;
  for (let i = 0; i < 100; i++) worst = Math.max(worst, nextTurn(1_000_000));
  expect(worst).toBeGreaterThan(2500);
  expect(nextTurn(1_000_000 + 60_000)).toBe(0);
});
