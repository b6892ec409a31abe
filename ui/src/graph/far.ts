/**
 * A large graph seen from far away, painted once: every frame of a movement then costs one copy of an image instead of
 * thousands of lines. It is painted in slices, so that no frame waits for it.
 */

import { kindColour, type Extent, type Rect, type Theme } from "./paint";
import type { Placed } from "./scene";

const WORTH_IT = 600;
const MOST_PIXELS = 9_000_000;
const LONGEST = 8_000;
const SHARPEST = 0.3;
const SLICE_MS = 7;

export class FarPicture {
  readonly scale: number;
  private readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private line = 0;
  private box = 0;
  private frame = 0;
  done = false;

  constructor(
    private readonly placed: Placed,
    private readonly extent: Extent,
    readonly theme: Theme,
    private readonly onDone: () => void,
  ) {
    const { width, height } = placed.size;
    this.scale = Math.min(SHARPEST, LONGEST / width, LONGEST / height, Math.sqrt(MOST_PIXELS / (width * height)));
    this.canvas = document.createElement("canvas");
    this.canvas.width = Math.ceil(width * this.scale);
    this.canvas.height = Math.ceil(height * this.scale);
    this.context = this.canvas.getContext("2d")!;
    this.context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.go();
  }

  static isWorthIt(placed: Placed): boolean {
    return placed.scene.lines.length + placed.scene.boxes.length > WORTH_IT;
  }

  /** Whether a view of this size is served by the picture. */
  serves(k: number): boolean {
    return k <= this.scale * 1.7;
  }

  end(): void {
    cancelAnimationFrame(this.frame);
  }

  private go(): void {
    this.frame = requestAnimationFrame(() => {
      const start = performance.now();
      while (performance.now() - start < SLICE_MS && !this.done) this.some();
      if (this.done) this.onDone();
      else this.go();
    });
  }

  private some(): void {
    const { lines, pairOf, boxes } = this.placed.scene;
    const { context, theme, extent } = this;
    if (this.line < lines.length) {
      const last = Math.min(this.line + 40, lines.length);
      for (; this.line < last; this.line++) {
        const line = lines[this.line]!;
        // Of many lines between two boxes the first is enough, unless the other says something.
        if (this.line > 0 && pairOf[this.line] === pairOf[this.line - 1] && !line.change && !line.path) continue;
        const path = extent.curves[this.line]!;
        context.strokeStyle = line.change ? theme[line.change] : line.path ? theme.accent : theme.line;
        context.lineWidth = (line.change || line.path ? 1.4 : 0.7) / this.scale;
        context.beginPath();
        context.moveTo(path[0]!, path[1]!);
        for (let p = 6; p < path.length; p += 6) context.lineTo(path[p]!, path[p + 1]!);
        context.stroke();
      }
      return;
    }
    const last = Math.min(this.box + 80, boxes.length);
    for (; this.box < last; this.box++) {
      const box = boxes[this.box]!;
      context.fillStyle = box.change ? theme[box.change] : box.failed ? theme.failed : kindColour(theme, box);
      context.fillRect(this.placed.x[this.box]!, this.placed.y[this.box]!, this.placed.width[this.box]!, this.placed.height[this.box]!);
    }
    this.done = this.box >= boxes.length;
  }

  /** Copies the part of the world in `rect` to the same place of a context that is set to the world. */
  copyTo(context: CanvasRenderingContext2D, rect: Rect): void {
    const left = Math.max(0, rect.left);
    const top = Math.max(0, rect.top);
    const width = Math.min(this.placed.size.width, rect.right) - left;
    const height = Math.min(this.placed.size.height, rect.bottom) - top;
    if (width <= 0 || height <= 0) return;
    const s = this.scale;
    context.imageSmoothingQuality = "low";
    context.drawImage(this.canvas, left * s, top * s, width * s, height * s, left, top, width, height);
  }
}
