/**
 * Layers from left to right: what is read stands left of what was made of it.
 *
 * The usual four steps (Sugiyama): cycles are opened, every box gets a layer, the order within layers is chosen so that few
 * lines cross, and boxes move up and down towards what they are connected with. Written for thousands of boxes: no step
 * is worse than n log n, and long lines from one box share their way, so that they do not multiply what is sorted.
 */

export interface LayoutInput {
  widths: number[];
  heights: number[];
  edges: [number, number][];
  gap: number;
  layerGap: number;
}

export interface LayoutOutput {
  x: number[];
  y: number[];
  layers: number[];
  /** For each edge the points (x, y, x, y, ...) between its ends, from source to target. */
  bends: number[][];
  width: number;
  height: number;
}

export function layout(input: LayoutInput): LayoutOutput {
  const count = input.widths.length;
  const forward = acyclic(count, input.edges);
  const layerOf = layersOf(count, forward);
  const items = withWaypoints(count, forward, layerOf);
  const order = ordered(items);
  const y = placed(items, order, input);
  return assembled(input, layerOf, items, order, y);
}

/** Every edge once, none to itself, and none that closes a cycle: such edges are turned round. */
function acyclic(count: number, edges: [number, number][]): [number, number][] {
  const targets: number[][] = Array.from({ length: count }, () => []);
  const incoming = new Int32Array(count);
  const seen = new Set<number>();
  for (const [from, to] of edges) {
    const key = from * count + to;
    if (from === to || seen.has(key)) continue;
    seen.add(key);
    targets[from]!.push(to);
    incoming[to]!++;
  }
  const state = new Uint8Array(count); // 0 new, 1 on the way, 2 done
  const kept = new Map<number, [number, number]>();
  const starts = Array.from({ length: count }, (_, i) => i).sort((a, b) => incoming[a]! - incoming[b]! || a - b);
  for (const start of starts) {
    if (state[start] !== 0) continue;
    const stack: [number, number][] = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1]!;
      const next = targets[top[0]]![top[1]++];
      if (next === undefined) {
        state[top[0]] = 2;
        stack.pop();
        continue;
      }
      const turned = state[next] === 1;
      const edge: [number, number] = turned ? [next, top[0]] : [top[0], next];
      kept.set(edge[0] * count + edge[1], edge);
      if (state[next] === 0) {
        state[next] = 1;
        stack.push([next, 0]);
      }
    }
  }
  return [...kept.values()];
}

function layersOf(count: number, edges: [number, number][]): number[] {
  const sources: number[][] = Array.from({ length: count }, () => []);
  const targets: number[][] = Array.from({ length: count }, () => []);
  const waiting = new Int32Array(count);
  for (const [from, to] of edges) {
    targets[from]!.push(to);
    sources[to]!.push(from);
    waiting[to]!++;
  }
  const layer: number[] = new Array<number>(count).fill(0);
  const sorted: number[] = [];
  for (let i = 0; i < count; i++) if (waiting[i] === 0) sorted.push(i);
  for (let at = 0; at < sorted.length; at++) {
    const from = sorted[at]!;
    for (const to of targets[from]!) {
      layer[to] = Math.max(layer[to]!, layer[from]! + 1);
      if (--waiting[to]! === 0) sorted.push(to);
    }
  }
  // A box with more lines to its right than to its left stands close to what uses it.
  for (let at = sorted.length - 1; at >= 0; at--) {
    const box = sorted[at]!;
    if (targets[box]!.length <= sources[box]!.length) continue;
    let nearest = Infinity;
    for (const to of targets[box]!) nearest = Math.min(nearest, layer[to]!);
    if (Number.isFinite(nearest)) layer[box] = nearest - 1;
  }
  const least = layer.reduce((a, b) => Math.min(a, b), Infinity);
  return count ? layer.map((l) => l - least) : layer;
}

interface Items {
  /** Boxes first, then the waypoints of long edges. */
  layer: number[];
  left: number[][];
  right: number[][];
  boxes: number;
  /** (source, target) to the waypoints on the way. */
  ways: Map<number, number[]>;
}

const MOST_WAYPOINTS = 40_000;

function withWaypoints(count: number, edges: [number, number][], layerOf: number[]): Items {
  const layer = [...layerOf];
  const left: number[][] = Array.from({ length: count }, () => []);
  const right: number[][] = Array.from({ length: count }, () => []);
  const ways = new Map<number, number[]>();
  const shared = new Map<string, number>();
  const join = (a: number, b: number) => {
    right[a]!.push(b);
    left[b]!.push(a);
  };
  for (const [from, to] of edges) {
    const way: number[] = [];
    let before = from;
    for (let l = layerOf[from]! + 1; l < layerOf[to]! && layer.length - count < MOST_WAYPOINTS; l++) {
      const key = `${from} ${l}`;
      let point = shared.get(key);
      if (point === undefined) {
        point = layer.length;
        shared.set(key, point);
        layer.push(l);
        left.push([]);
        right.push([]);
        join(before, point);
      }
      way.push(point);
      before = point;
    }
    if (layerOf[to]! - layer[before]! === 1) join(before, to);
    ways.set(from * count + to, way);
  }
  return { layer, left, right, boxes: count, ways };
}

function ordered(items: Items): number[][] {
  const deepest = items.layer.reduce((a, b) => Math.max(a, b), -1);
  const layers: number[][] = Array.from({ length: deepest + 1 }, () => []);
  // What is connected starts out side by side.
  const seen = new Uint8Array(items.layer.length);
  for (let start = 0; start < items.layer.length; start++) {
    if (seen[start]) continue;
    const stack = [start];
    seen[start] = 1;
    while (stack.length) {
      const item = stack.pop()!;
      layers[items.layer[item]!]!.push(item);
      for (const side of [items.right[item]!, items.left[item]!]) {
        for (let i = side.length - 1; i >= 0; i--) {
          const next = side[i]!;
          if (!seen[next]) {
            seen[next] = 1;
            stack.push(next);
          }
        }
      }
    }
  }
  const position = new Float64Array(items.layer.length);
  const number = () => {
    for (const layer of layers) layer.forEach((item, i) => (position[item] = i));
  };
  number();
  const small = items.layer.length <= 1500;
  let best = layers.map((l) => [...l]);
  let fewest = small ? crossings(items, layers, position) : Infinity;
  const sweeps = small ? 16 : 8;
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const rightwards = sweep % 2 === 0;
    const side = rightwards ? items.left : items.right;
    for (let step = 1; step < layers.length; step++) {
      const layer = layers[rightwards ? step : layers.length - 1 - step]!;
      const wish = new Map<number, number>();
      for (const item of layer) {
        const near = side[item]!;
        let sum = 0;
        for (const other of near) sum += position[other]!;
        wish.set(item, near.length ? sum / near.length : position[item]!);
      }
      layer.sort((a, b) => wish.get(a)! - wish.get(b)! || position[a]! - position[b]!);
      layer.forEach((item, i) => (position[item] = i));
    }
    if (small) {
      const now = crossings(items, layers, position);
      if (now < fewest) {
        fewest = now;
        best = layers.map((l) => [...l]);
      }
    } else best = layers;
  }
  return best;
}

/** How many pairs of lines cross between neighbouring layers (an accumulator tree, n log n). */
function crossings(items: Items, layers: number[][], position: Float64Array): number {
  let total = 0;
  for (let l = 0; l + 1 < layers.length; l++) {
    const size = layers[l + 1]!.length;
    const tree = new Int32Array(size + 1);
    let before = 0;
    for (const item of layers[l]!) {
      const ends = items.right[item]!.map((other) => position[other]!).sort((a, b) => a - b);
      for (const end of ends) {
        let notRight = 0;
        for (let i = end + 1; i > 0; i -= i & -i) notRight += tree[i]!;
        total += before - notRight;
      }
      for (const end of ends) {
        for (let i = end + 1; i <= size; i += i & -i) tree[i]!++;
        before++;
      }
    }
  }
  return total;
}

const WAYPOINT_HEIGHT = 6;

/** The middle of every item: as near as the order allows to the mean of what it is connected with. */
function placed(items: Items, layers: number[][], input: LayoutInput): Float64Array {
  const height = (item: number) => (item < items.boxes ? input.heights[item]! : WAYPOINT_HEIGHT);
  const y = new Float64Array(items.layer.length);
  const offsets = layers.map((layer) => {
    const offset = new Float64Array(layer.length);
    for (let i = 1; i < layer.length; i++) {
      const above = layer[i - 1]!;
      const here = layer[i]!;
      const gap = above < items.boxes && here < items.boxes ? input.gap : input.gap * 0.6;
      offset[i] = offset[i - 1]! + height(above) / 2 + height(here) / 2 + gap;
    }
    const middle = (offset[layer.length - 1] ?? 0) / 2;
    layer.forEach((item, i) => (y[item] = offset[i]! - middle));
    return offset;
  });
  const weight = (a: number, b: number) => (a < items.boxes ? 1 : 2) * (b < items.boxes ? 1 : 4);
  const pull = (layer: number[], offset: Float64Array, useLeft: boolean, useRight: boolean) => {
    const wish = new Float64Array(layer.length);
    const strength = new Float64Array(layer.length);
    layer.forEach((item, i) => {
      let sum = 0;
      let heft = 0;
      if (useLeft)
        for (const other of items.left[item]!) {
          const w = weight(item, other);
          sum += y[other]! * w;
          heft += w;
        }
      if (useRight)
        for (const other of items.right[item]!) {
          const w = weight(item, other);
          sum += y[other]! * w;
          heft += w;
        }
      wish[i] = (heft ? sum / heft : y[item]!) - offset[i]!;
      strength[i] = heft ? (item < items.boxes ? 1 : 2) : 0.05;
    });
    const found = rising(wish, strength);
    layer.forEach((item, i) => (y[item] = found[i]! + offset[i]!));
  };
  const rounds = items.layer.length > 5000 ? 4 : 8;
  for (let round = 0; round < rounds; round++) {
    for (let l = 1; l < layers.length; l++) pull(layers[l]!, offsets[l]!, true, round > rounds - 3);
    for (let l = layers.length - 2; l >= 0; l--) pull(layers[l]!, offsets[l]!, round > rounds - 3, true);
  }
  return y;
}

/** The rising sequence nearest to `wish` by weighted squares (pool adjacent violators). */
export function rising(wish: Float64Array, weight: Float64Array): Float64Array {
  const value: number[] = [];
  const heft: number[] = [];
  const length: number[] = [];
  for (let i = 0; i < wish.length; i++) {
    let v = wish[i]!;
    let w = weight[i]!;
    let n = 1;
    while (value.length && value[value.length - 1]! > v) {
      const w0 = heft.pop()!;
      v = (value.pop()! * w0 + v * w) / (w0 + w);
      w += w0;
      n += length.pop()!;
    }
    value.push(v);
    heft.push(w);
    length.push(n);
  }
  const out = new Float64Array(wish.length);
  let at = 0;
  value.forEach((v, block) => {
    for (let n = 0; n < length[block]!; n++) out[at++] = v;
  });
  return out;
}

function assembled(input: LayoutInput, layerOf: number[], items: Items, layers: number[][], y: Float64Array): LayoutOutput {
  const count = input.widths.length;
  const widest = layers.map((layer) => layer.reduce((w, item) => (item < count ? Math.max(w, input.widths[item]!) : w), 0));
  const start: number[] = [];
  let x = 0;
  for (const width of widest) {
    start.push(x);
    x += width + input.layerGap;
  }
  let top = Infinity;
  let bottom = -Infinity;
  for (let i = 0; i < y.length; i++) {
    const half = (i < count ? input.heights[i]! : WAYPOINT_HEIGHT) / 2;
    top = Math.min(top, y[i]! - half);
    bottom = Math.max(bottom, y[i]! + half);
  }
  if (!count) top = bottom = 0;
  const bends = input.edges.map(([from, to]) => {
    const straight = items.ways.get(from * count + to);
    const turned = straight === undefined ? items.ways.get(to * count + from) : undefined;
    const way = straight ?? [...(turned ?? [])].reverse();
    return way.flatMap((point) => {
      const l = items.layer[point]!;
      return [start[l]! + widest[l]! / 2, y[point]! - top];
    });
  });
  return {
    x: layerOf.map((l) => start[l]!),
    y: Array.from({ length: count }, (_, i) => y[i]! - input.heights[i]! / 2 - top),
    layers: layerOf,
    bends,
    width: Math.max(0, x - input.layerGap),
    height: bottom - top,
  };
}
