import { expect, test } from "vitest";
import { layout, rising, type LayoutInput } from "../src/graph/layout";

function input(count: number, edges: [number, number][]): LayoutInput {
  return { widths: new Array(count).fill(200), heights: new Array(count).fill(50), edges, gap: 20, layerGap: 80 };
}

/** Numbers from a seed, so that a graph that fails can be made again. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function generated(seed: number, count: number, edges: number): LayoutInput {
  const next = random(seed);
  const made: [number, number][] = [];
  for (let i = 0; i < edges; i++) made.push([Math.floor(next() * count), Math.floor(next() * count)]);
  const given = input(count, made);
  given.heights = given.heights.map(() => 30 + Math.floor(next() * 200));
  return given;
}

function overlaps(given: LayoutInput): string[] {
  const out = layout(given);
  const found: string[] = [];
  for (let a = 0; a < out.x.length; a++)
    for (let b = a + 1; b < out.x.length; b++) {
      const besides = out.x[a]! + given.widths[a]! <= out.x[b]! || out.x[b]! + given.widths[b]! <= out.x[a]!;
      const above = out.y[a]! + given.heights[a]! <= out.y[b]! + 1e-6 || out.y[b]! + given.heights[b]! <= out.y[a]! + 1e-6;
      if (!besides && !above) found.push(`${a} ${b}`);
    }
  return found;
}

test("a chain stands in one row, from left to right", () => {
  const out = layout(input(3, [[0, 1], [1, 2]]));
  expect(out.x).toEqual([0, 280, 560]);
  expect(new Set(out.y)).toEqual(new Set([0]));
  expect([out.width, out.height]).toEqual([760, 50]);
});

test("a diamond's ends stand between its middle boxes", () => {
  const out = layout(input(4, [[0, 1], [0, 2], [1, 3], [2, 3]]));
  expect(out.y[0]).toBeCloseTo((out.y[1]! + out.y[2]!) / 2, 3);
  expect(out.y[3]).toBeCloseTo(out.y[0]!, 3);
});

test("a line over several layers goes round the boxes between", () => {
  const given = input(3, [[0, 1], [1, 2], [0, 2]]);
  const out = layout(given);
  const [x, y] = out.bends[2]!;
  expect(out.bends[2]).toHaveLength(2);
  expect(x).toBe(380);
  expect(y! < out.y[1]! || y! > out.y[1]! + 50).toBe(true);
});

test("boxes never overlap, whatever the graph: cycles, loops, doubles, many parts", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const given = generated(seed, 1 + (seed % 40), seed * 2);
    expect(overlaps(given), `seed ${seed}`).toEqual([]);
  }
});

test("what is read stands left of what was made of it, unless they feed each other", () => {
  const next = random(7);
  const edges: [number, number][] = [];
  for (let i = 0; i < 300; i++) {
    const to = 1 + Math.floor(next() * 99);
    edges.push([Math.floor(next() * to), to]);
  }
  const out = layout(input(100, edges));
  for (const [from, to] of edges) expect(out.x[from]! < out.x[to]!).toBe(true);
});

test("the same graph gives the same picture", () => {
  expect(layout(generated(3, 50, 90))).toEqual(layout(generated(3, 50, 90)));
});

test("nothing at all has no size", () => {
  expect(layout(input(0, []))).toMatchObject({ width: 0, height: 0, x: [] });
});

test("a rising sequence is the nearest there is", () => {
  const even = new Float64Array([1, 1, 1, 1]);
  expect([...rising(new Float64Array([1, 3, 2, 4]), even)]).toEqual([1, 2.5, 2.5, 4]);
  expect([...rising(new Float64Array([4, 3, 2, 1]), even)]).toEqual([2.5, 2.5, 2.5, 2.5]);
});
