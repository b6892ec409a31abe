/** Where the eye is: screen = world * k + (x, y). Plain functions; the stage keeps the state. */

import type { Rect, View } from "./paint";
import type { Placed } from "./scene";

export interface Size {
  width: number;
  height: number;
}

export const ALL_IN_VIEW = 50;
const READABLE = 0.8;
const MARGIN = 28;
const NEAREST = 2.5;
const LARGEST_FIT = 1.15;

export function fit(world: Size, screen: Size): View {
  const k = Math.min(
    (screen.width - 2 * MARGIN) / Math.max(world.width, 1),
    (screen.height - 2 * MARGIN) / Math.max(world.height, 1),
    LARGEST_FIT,
  );
  const safe = Math.max(k, 0.002);
  return { k: safe, x: (screen.width - world.width * safe) / 2, y: (screen.height - world.height * safe) / 2 };
}

/** All of a small graph; of a large one what lies around its root, large enough to be read. */
export function firstView(placed: Placed, screen: Size): View {
  const whole = fit(placed.size, screen);
  if (placed.scene.boxes.length <= ALL_IN_VIEW || whole.k >= 0.5) return whole;
  const root = Math.max(0, placed.scene.boxes.findIndex((box) => box.root));
  return centred(placed, root, READABLE, screen);
}

export function centred(placed: Placed, box: number, k: number, screen: Size): View {
  const x = placed.x[box]! + placed.width[box]! / 2;
  const y = placed.y[box]! + Math.min(placed.height[box]!, 200) / 2;
  const view = { k, x: screen.width / 2 - x * k, y: screen.height / 2 - y * k };
  // What is wide on one side only does not leave the other half of the screen empty.
  const room = screen.width - 2 * MARGIN;
  const right = placed.size.width * k + view.x;
  if (view.x > MARGIN && right > screen.width - MARGIN) view.x = Math.max(MARGIN, view.x - (right - (MARGIN + room)));
  else if (right < screen.width - MARGIN && view.x < MARGIN) view.x = Math.min(view.x + (screen.width - MARGIN - right), MARGIN);
  return view;
}

export function zoomed(view: View, factor: number, at: { x: number; y: number }, world: Size, screen: Size): View {
  const least = Math.min(0.2, fit(world, screen).k * 0.7);
  const k = Math.min(NEAREST, Math.max(least, view.k * factor));
  const ratio = k / view.k;
  return { k, x: at.x - (at.x - view.x) * ratio, y: at.y - (at.y - view.y) * ratio };
}

/** The part of the world on the screen, and `pad` screens around it. */
export function seen(view: View, screen: Size, pad = 0): Rect {
  return {
    left: (-view.x - screen.width * pad) / view.k,
    top: (-view.y - screen.height * pad) / view.k,
    right: (screen.width * (1 + pad) - view.x) / view.k,
    bottom: (screen.height * (1 + pad) - view.y) / view.k,
  };
}

/** Moved by as little as brings the box onto the screen. */
export function showing(view: View, placed: Placed, box: number, screen: Size): View {
  const left = placed.x[box]! * view.k + view.x;
  const top = placed.y[box]! * view.k + view.y;
  const width = placed.width[box]! * view.k;
  const height = Math.min(placed.height[box]! * view.k, screen.height - 2 * MARGIN);
  let { x, y } = view;
  if (left < MARGIN) x += MARGIN - left;
  else if (left + width > screen.width - MARGIN) x -= left + width - (screen.width - MARGIN);
  if (top < MARGIN) y += MARGIN - top;
  else if (top + height > screen.height - MARGIN) y -= top + height - (screen.height - MARGIN);
  return { k: view.k, x, y };
}

export function boxesIn(placed: Placed, rect: Rect): number[] {
  const found: number[] = [];
  for (let i = 0; i < placed.x.length; i++) {
    const x = placed.x[i]!;
    const y = placed.y[i]!;
    if (x > rect.right || x + placed.width[i]! < rect.left) continue;
    if (y > rect.bottom || y + placed.height[i]! < rect.top) continue;
    found.push(i);
  }
  return found;
}

/** The same boxes, those nearest to the middle of the part first. */
export function nearestTo(placed: Placed, boxes: number[], rect: Rect): number[] {
  const [x, y] = [(rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2];
  const distance = (i: number) => (placed.x[i]! + placed.width[i]! / 2 - x) ** 2 + (placed.y[i]! + placed.height[i]! / 2 - y) ** 2;
  return [...boxes].sort((a, b) => distance(a) - distance(b));
}
