/** Where an arrow key leads: to what is connected on that side, else to the neighbour there. */

import type { Placed } from "./scene";

export type Arrow = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

export function isArrow(key: string): key is Arrow {
  return key === "ArrowLeft" || key === "ArrowRight" || key === "ArrowUp" || key === "ArrowDown";
}

export function neighbour(placed: Placed, from: number, key: Arrow): number | null {
  const sideways = key === "ArrowLeft" || key === "ArrowRight";
  const others = sideways ? connected(placed, from, key) : sameLayer(placed, from, key);
  return nearest(placed, from, others) ?? nearest(placed, from, onThatSide(placed, from, key));
}

function connected(placed: Placed, from: number, key: Arrow): number[] {
  const found: number[] = [];
  for (const [source, target] of placed.scene.pairs) {
    if (key === "ArrowLeft" && target === from) found.push(source);
    if (key === "ArrowRight" && source === from) found.push(target);
  }
  return found;
}

function sameLayer(placed: Placed, from: number, key: Arrow): number[] {
  return onThatSide(placed, from, key).filter((i) => placed.layers[i] === placed.layers[from]);
}

function middle(placed: Placed, i: number): [number, number] {
  return [placed.x[i]! + placed.width[i]! / 2, placed.y[i]! + placed.height[i]! / 2];
}

function onThatSide(placed: Placed, from: number, key: Arrow): number[] {
  const [x, y] = middle(placed, from);
  const found: number[] = [];
  for (let i = 0; i < placed.x.length; i++) {
    const [ox, oy] = middle(placed, i);
    const there =
      key === "ArrowLeft" ? ox < x - 1 : key === "ArrowRight" ? ox > x + 1 : key === "ArrowUp" ? oy < y - 1 : oy > y + 1;
    if (there) found.push(i);
  }
  return found;
}

function nearest(placed: Placed, from: number, others: number[]): number | null {
  const [x, y] = middle(placed, from);
  let best: number | null = null;
  let least = Infinity;
  for (const i of others) {
    if (i === from) continue;
    const [ox, oy] = middle(placed, i);
    const distance = (ox - x) ** 2 + (oy - y) ** 2;
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}
