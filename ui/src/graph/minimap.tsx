import { useEffect, useRef, type RefObject } from "react";
import type { Size } from "./camera";
import { kindColour, themeOf, type Theme, type View } from "./paint";
import type { Placed } from "./scene";

interface Props {
  placed: Placed | null;
  view: RefObject<View>;
  screen: RefObject<Size>;
  draw: RefObject<() => void>;
  chosen: number;
  onLook: (view: View) => void;
}

const WIDTH = 168;
const HEIGHT = 56;
const EDGE = 3;

function scaleOf(placed: Placed): { k: number; x: number; y: number } {
  const k = Math.min((WIDTH - 2 * EDGE) / Math.max(1, placed.size.width), (HEIGHT - 2 * EDGE) / Math.max(1, placed.size.height));
  return { k, x: (WIDTH - placed.size.width * k) / 2, y: (HEIGHT - placed.size.height * k) / 2 };
}

/** All of the graph, small, with a frame around what is on the screen; a press goes there. */
export function MiniMap({ placed, view, screen, draw, chosen, onLook }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<{ of: Placed; dark: boolean; canvas: HTMLCanvasElement } | null>(null);
  const theme = useRef<{ dark: boolean; colours: Theme } | null>(null);
  const paint = () => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (element.width !== WIDTH * ratio) {
      element.width = WIDTH * ratio;
      element.height = HEIGHT * ratio;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, WIDTH, HEIGHT);
    if (!placed) return;
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    if (theme.current?.dark !== dark) theme.current = { dark, colours: themeOf(element) };
    const colours = theme.current.colours;
    const { k, x, y } = scaleOf(placed);
    if (picture.current?.of !== placed || picture.current.dark !== dark) {
      const still = document.createElement("canvas");
      still.width = element.width;
      still.height = element.height;
      const brush = still.getContext("2d")!;
      brush.setTransform(ratio, 0, 0, ratio, 0, 0);
      placed.scene.boxes.forEach((box, i) => {
        brush.fillStyle = box.change ? colours[box.change] : box.failed ? colours.failed : kindColour(colours, box);
        brush.fillRect(x + placed.x[i]! * k, y + placed.y[i]! * k, Math.max(1.5, placed.width[i]! * k), Math.max(1.2, placed.height[i]! * k));
      });
      picture.current = { of: placed, dark, canvas: still };
    }
    context.drawImage(picture.current.canvas, 0, 0, WIDTH, HEIGHT);
    if (chosen >= 0) {
      context.fillStyle = colours.accent;
      context.fillRect(x + placed.x[chosen]! * k - 1, y + placed.y[chosen]! * k - 1, placed.width[chosen]! * k + 2, placed.height[chosen]! * k + 2);
    }
    const v = view.current;
    const left = Math.max(EDGE - 2, (-v.x / v.k) * k + x);
    const top = Math.max(EDGE - 2, (-v.y / v.k) * k + y);
    const right = Math.min(WIDTH - EDGE + 2, ((screen.current.width - v.x) / v.k) * k + x);
    const bottom = Math.min(HEIGHT - EDGE + 2, ((screen.current.height - v.y) / v.k) * k + y);
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    if (right > left && bottom > top) context.strokeRect(left, top, right - left, bottom - top);
  };
  useEffect(() => {
    draw.current = paint;
    paint();
  });

  const lookAt = (event: React.PointerEvent) => {
    if (!placed || (event.type === "pointermove" && event.buttons !== 1)) return;
    const bounds = event.currentTarget.getBoundingClientRect();
    const { k, x, y } = scaleOf(placed);
    const worldX = (event.clientX - bounds.left - x) / k;
    const worldY = (event.clientY - bounds.top - y) / k;
    const zoom = view.current.k;
    onLook({ k: zoom, x: screen.current.width / 2 - worldX * zoom, y: screen.current.height / 2 - worldY * zoom });
  };
  return <canvas className="minimap" ref={canvas} role="img" aria-label="Mini map" onPointerDown={lookAt} onPointerMove={lookAt} />;
}
