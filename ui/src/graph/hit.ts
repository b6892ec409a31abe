import type { Extent } from "./paint";

const SAMPLES = 16;

/** The line nearest to a point, if one is within reach; -1 if none is. */
export function lineAt(extent: Extent, x: number, y: number, reach: number): number {
  let best = -1;
  let least = reach * reach;
  for (let i = 0; i < extent.curves.length; i++) {
    if (x < extent.left[i]! - reach || x > extent.right[i]! + reach) continue;
    if (y < extent.top[i]! - reach || y > extent.bottom[i]! + reach) continue;
    const distance = squaredDistance(extent.curves[i]!, x, y);
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

function squaredDistance(path: number[], x: number, y: number): number {
  let least = Infinity;
  let x0 = path[0]!;
  let y0 = path[1]!;
  for (let p = 2; p < path.length; p += 6) {
    const [x1, y1, x2, y2, x3, y3] = path.slice(p, p + 6) as [number, number, number, number, number, number];
    let [ax, ay] = [x0, y0];
    for (let s = 1; s <= SAMPLES; s++) {
      const t = s / SAMPLES;
      const u = 1 - t;
      const bx = u * u * u * x0 + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t * t * t * x3;
      const by = u * u * u * y0 + 3 * u * u * t * y1 + 3 * u * t * t * y2 + t * t * t * y3;
      least = Math.min(least, toSegment(x, y, ax, ay, bx, by));
      [ax, ay] = [bx, by];
    }
    [x0, y0] = [x3, y3];
  }
  return least;
}

function toSegment(x: number, y: number, ax: number, ay: number, bx: number, by: number): number {
  const length = (bx - ax) ** 2 + (by - ay) ** 2;
  const t = length ? Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length)) : 0;
  return (x - ax - t * (bx - ax)) ** 2 + (y - ay - t * (by - ay)) ** 2;
}
