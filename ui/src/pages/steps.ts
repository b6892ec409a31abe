import type { Step } from "../api";
import { makeScene, shortName, type Box, type Line, type Scene } from "../graph/scene";
import { many } from "../text";

/** Steps come as an indented list, the result first; each feeds the nearest one above it that stands further out. */
export function stepScene(steps: Step[]): Scene {
  const boxes: Box[] = steps.map((step, i) => ({
    id: String(step.number),
    label: step.text || step.operator,
    title: shortName(step.operator),
    below: step.rows === null || step.rows === undefined ? "" : many(step.rows, "row"),
    kind: "step",
    masked: false,
    failed: false,
    dropped: false,
    change: null,
    root: i === 0,
    columns: [],
    hidden: 0,
  }));
  const lines: Line[] = [];
  const above: number[] = [];
  steps.forEach((step, i) => {
    while (above.length && steps[above[above.length - 1]!]!.depth >= step.depth) above.pop();
    const to = above[above.length - 1];
    if (to !== undefined) lines.push({ from: i, to, fromRow: -1, toRow: -1, kind: "step", run: null, change: null, indirect: false, path: false });
    above.push(i);
  });
  return makeScene(boxes, lines);
}
