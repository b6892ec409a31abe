/** Drag to move, wheel or two fingers to zoom; a click on a line is told apart from a drag. */

import { useEffect, useRef, type RefObject } from "react";

interface Handlers {
  panBy: (dx: number, dy: number) => void;
  zoomBy: (factor: number, at: { x: number; y: number }) => void;
  lineUnder: (x: number, y: number) => number;
  boxUnder: (x: number, y: number) => number;
  onBox: (box: number) => void;
  onLine: ((line: number) => void) | undefined;
  needsCtrl: boolean;
}

const SLACK = 4;

export function useGestures(stage: RefObject<HTMLElement | null>, handlers: Handlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const element = stage.current;
    if (!element) return;
    const pointers = new Map<number, { x: number; y: number }>();
    let dragged = false;
    let start = { x: 0, y: 0 };

    const at = (event: MouseEvent) => {
      const bounds = element.getBoundingClientRect();
      return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
    };
    const down = (event: PointerEvent) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) {
        start = at(event);
        dragged = false;
      }
    };
    const move = (event: PointerEvent) => {
      const before = pointers.get(event.pointerId);
      const now = at(event);
      if (!before) {
        if (event.pointerType === "mouse" && latest.current.onLine) {
          const onBox = (event.target as HTMLElement).closest(".box") !== null;
          const { boxUnder, lineUnder } = latest.current;
          element.classList.toggle("on-line", !onBox && (boxUnder(now.x, now.y) >= 0 || lineUnder(now.x, now.y) >= 0));
        }
        return;
      }
      if (pointers.size === 1) {
        if (!dragged && Math.hypot(now.x - start.x, now.y - start.y) < SLACK) return;
        if (!dragged) {
          dragged = true;
          element.setPointerCapture(event.pointerId);
          element.classList.add("dragging");
        }
        latest.current.panBy(now.x - before.x, now.y - before.y);
      } else if (pointers.size === 2) {
        dragged = true;
        const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
        const was = Math.hypot(before.x - other.x, before.y - other.y);
        const is = Math.hypot(now.x - other.x, now.y - other.y);
        const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
        if (was > 0) latest.current.zoomBy(is / was, middle);
        latest.current.panBy((now.x - before.x) / 2, (now.y - before.y) / 2);
      }
      pointers.set(event.pointerId, now);
    };
    const up = (event: PointerEvent) => {
      pointers.delete(event.pointerId);
      element.classList.remove("dragging");
    };
    // The click that ends a drag selects nothing.
    const click = (event: MouseEvent) => {
      if (dragged) {
        event.stopPropagation();
        event.preventDefault();
        dragged = false;
        return;
      }
      if ((event.target as HTMLElement).closest(".box")) return;
      const here = at(event);
      const box = latest.current.boxUnder(here.x, here.y);
      if (box >= 0) return latest.current.onBox(box);
      const line = latest.current.lineUnder(here.x, here.y);
      if (line >= 0) latest.current.onLine?.(line);
    };
    const wheel = (event: WheelEvent) => {
      if (latest.current.needsCtrl && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1;
      if (event.shiftKey) latest.current.panBy(-event.deltaY * unit, 0);
      else latest.current.zoomBy(Math.exp(-Math.max(-300, Math.min(300, event.deltaY * unit)) * (event.ctrlKey ? 0.008 : 0.0016)), at(event));
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    element.addEventListener("click", click, true);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", up);
      element.removeEventListener("click", click, true);
      element.removeEventListener("wheel", wheel);
    };
  }, [stage]);
}
