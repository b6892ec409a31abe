/**
 * The graph on the screen. Lines, and boxes too small to read, are painted on a canvas; every box in view is also a
 * button, so that it can be clicked, focused and read aloud. Only what is in view is in the document, and while the graph
 * moves only a few boxes join at a time: thousands of them stay smooth.
 */

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { BoxView, type MoreOf } from "./box";
import { ALL_IN_VIEW, boxesIn, firstView, fit, nearestTo, seen, showing, zoomed, type Size } from "./camera";
import { isArrow, neighbour } from "./keys";
import { MiniMap } from "./minimap";
import { FarPicture } from "./far";
import { extentOf, FAR, paintChosen, paintLines, paintPlainBoxes, themeOf, type Theme, type View } from "./paint";
import { useGestures } from "./gestures";
import { lineAt } from "./hit";
import type { Placed } from "./scene";

export interface StageProps {
  label: string;
  placed: Placed | null;
  busy: boolean;
  data?: Record<string, string | number | undefined>;
  selected: string | null;
  onSelect: (id: string | null) => void;
  onLine?: (line: number) => void;
  onColumn?: (id: string, column: string) => void;
  onAllColumns?: (id: string) => void;
  more?: Map<string, MoreOf>;
  onMore?: (id: string, side: "inputs" | "outputs") => void;
  tools?: ReactNode;
  /** In a notebook the wheel scrolls the page unless Ctrl is held. */
  embedded?: boolean;
}

const MOST_BUTTONS = 300;
const AT_ONCE = 120;
const PER_FRAME = 40;
const PER_FRAME_PLAIN = 100;
const RESTING_MS = 140;

/** Too small to be read; but the columns of a small graph stay buttons at any size. */
function isPlain(placed: Placed, k: number): boolean {
  const { boxes } = placed.scene;
  return k < FAR && !(boxes.length <= ALL_IN_VIEW && boxes.some((box) => box.columns.length > 0));
}

export function Stage(props: StageProps) {
  const { placed, onSelect } = props;
  const stage = useRef<HTMLDivElement>(null);
  const world = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View>({ x: 0, y: 0, k: 1 });
  const screen = useRef<Size>({ width: 0, height: 0 });
  const touched = useRef(false);
  const movedAt = useRef(0);
  const theme = useRef<Theme | null>(null);
  const drawn = useRef<Placed | null>(null);
  const frame = useRef(0);
  const far = useRef<FarPicture | null>(null);
  const [mounted, setMounted] = useState<{ of: Placed | null; boxes: number[]; plain: boolean }>({ of: null, boxes: [], plain: false });
  const [active, setActive] = useState(-1);
  const focusNext = useRef(-1);
  const drawMap = useRef<() => void>(() => {}); // the mini map follows the view
  const extent = useMemo(() => (placed ? extentOf(placed) : null), [placed]);
  const chosen = useMemo(
    () => (placed && props.selected !== null ? placed.scene.boxes.findIndex((box) => box.id === props.selected) : -1),
    [placed, props.selected],
  );
  const state = useRef({ placed, extent, chosen, mounted, active });
  state.current = { placed, extent, chosen, mounted, active };

  const paint = useCallback(() => {
    frame.current = 0;
    const { placed, extent, chosen } = state.current;
    const context = canvas.current?.getContext("2d");
    if (!context || !canvas.current || !world.current || !stage.current) return;
    const { x, y, k } = view.current;
    const size = screen.current;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.current.width !== width || canvas.current.height !== height) {
      canvas.current.width = width;
      canvas.current.height = height;
    }
    world.current.style.transform = `translate(${x}px, ${y}px) scale(${k})`;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!placed || !extent) return;
    theme.current ??= themeOf(stage.current);
    context.setTransform(k * ratio, 0, 0, k * ratio, x * ratio, y * ratio);
    const rect = seen(view.current, size);
    const picture = far.current;
    if (picture && picture.serves(k)) {
      picture.copyTo(context, rect);
      if (chosen >= 0) paintChosen(context, placed, extent, theme.current, rect, chosen, k);
    } else {
      const plain = isPlain(placed, k);
      paintLines(context, placed, extent, theme.current, rect, k, chosen, plain);
      if (plain) paintPlainBoxes(context, placed, theme.current, rect, chosen, k);
    }
    drawMap.current();
  }, []);

  const mountMore = useCallback((first: boolean) => {
    const { placed, mounted, active } = state.current;
    if (!placed) return false;
    const plain = isPlain(placed, view.current.k);
    const same = mounted.of === placed && mounted.plain === plain;
    const resting = first || performance.now() - movedAt.current > RESTING_MS;
    const rect = seen(view.current, screen.current, 0.25);
    let wanted = boxesIn(placed, rect);
    if (wanted.length > MOST_BUTTONS) {
      // Far out the canvas shows and takes clicks for them all; those in the middle become buttons when the graph rests.
      if (!resting && same) return false;
      wanted = nearestTo(placed, wanted, rect).slice(0, MOST_BUTTONS);
    }
    if (active >= 0 && active < placed.x.length && !wanted.includes(active)) wanted.push(active);
    const already = new Set(same ? mounted.boxes : []);
    const budget = first || !same ? AT_ONCE : plain ? PER_FRAME_PLAIN : PER_FRAME;
    const missing = wanted.filter((i) => !already.has(i));
    const added = missing.slice(0, budget);
    // Boxes leave when the graph rests: taking them out costs as much as putting them in.
    const wantedSet = new Set(wanted);
    const stay = !same ? [] : resting ? mounted.boxes.filter((i) => wantedSet.has(i)) : mounted.boxes;
    if (added.length || !same || stay.length !== mounted.boxes.length) {
      setMounted({ of: placed, boxes: [...stay, ...added].sort((a, b) => a - b), plain });
    }
    return missing.length > added.length;
  }, []);

  const pump = useRef(0);
  const settle = useCallback(() => {
    if (pump.current) return;
    const step = () => {
      const more = mountMore(false);
      const resting = performance.now() - movedAt.current > RESTING_MS;
      if (more || !resting) pump.current = requestAnimationFrame(step);
      else pump.current = 0;
    };
    pump.current = requestAnimationFrame(step);
  }, [mountMore]);

  const redraw = useCallback(() => {
    if (!frame.current) frame.current = requestAnimationFrame(paint);
  }, [paint]);

  const look = useCallback(
    (next: View, byHand: boolean) => {
      view.current = next;
      if (byHand) touched.current = true;
      movedAt.current = performance.now();
      redraw();
      settle();
    },
    [redraw, settle],
  );

  // Large graphs are also painted as a picture, which is all that is copied while they move far out.
  const paintFar = useCallback(() => {
    far.current?.end();
    far.current = null;
    const { placed, extent } = state.current;
    if (!placed || !extent || !stage.current || !FarPicture.isWorthIt(placed)) return;
    far.current = new FarPicture(placed, extent, themeOf(stage.current), redraw);
  }, [redraw]);

  const measure = useCallback((): boolean => {
    const element = stage.current;
    if (!element) return false;
    const next = { width: element.clientWidth, height: element.clientHeight };
    const changed = next.width !== screen.current.width || next.height !== screen.current.height;
    screen.current = next;
    return changed;
  }, []);

  // A new picture: the whole of it, unless somebody has moved it; then what they look at stays where it is.
  useLayoutEffect(() => {
    measure();
    if (!placed) return redraw();
    const before = drawn.current;
    drawn.current = placed;
    const focus = Math.max(state.current.chosen, -1);
    const anchor = focus >= 0 ? placed.scene.boxes[focus]!.id : placed.scene.boxes.find((box) => box.root)?.id;
    const old = before?.scene.boxes.findIndex((box) => box.id === anchor) ?? -1;
    const now = placed.scene.boxes.findIndex((box) => box.id === anchor);
    if (before && touched.current && old >= 0 && now >= 0) {
      const { k, x, y } = view.current;
      view.current = { k, x: x + (before.x[old]! - placed.x[now]!) * k, y: y + (before.y[old]! - placed.y[now]!) * k };
    } else {
      view.current = firstView(placed, screen.current);
      touched.current = false;
    }
    movedAt.current = 0;
    paintFar();
    paint();
    mountMore(true);
    settle();
  }, [placed, measure, mountMore, paint, paintFar, redraw, settle]);

  useEffect(() => {
    redraw();
    if (chosen < 0 || !placed) return;
    setActive(chosen);
    const next = showing(view.current, placed, chosen, screen.current);
    if (next.x !== view.current.x || next.y !== view.current.y) look(next, touched.current);
  }, [chosen, placed, redraw, look]);

  useEffect(() => {
    const element = stage.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => {
      if (!measure()) return;
      const { placed, chosen } = state.current;
      if (placed && !touched.current) look(firstView(placed, screen.current), false);
      else if (placed && chosen >= 0) look(showing(view.current, placed, chosen, screen.current), true);
      else redraw();
    });
    watcher.observe(element);
    const recolour = () => {
      theme.current = null;
      paintFar();
      redraw();
    };
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", recolour);
    // Focus must not scroll what is moved by its transform.
    const still = () => {
      element.scrollTop = 0;
      element.scrollLeft = 0;
    };
    element.addEventListener("scroll", still);
    return () => {
      watcher.disconnect();
      dark.removeEventListener("change", recolour);
      element.removeEventListener("scroll", still);
      cancelAnimationFrame(frame.current);
      cancelAnimationFrame(pump.current);
      far.current?.end();
      frame.current = pump.current = 0;
    };
  }, [look, measure, paintFar, redraw]);

  const zoomBy = useCallback(
    (factor: number, at?: { x: number; y: number }) => {
      const { placed } = state.current;
      if (!placed) return;
      const middle = { x: screen.current.width / 2, y: screen.current.height / 2 };
      look(zoomed(view.current, factor, at ?? middle, placed.size, screen.current), true);
    },
    [look],
  );
  const panBy = useCallback(
    (dx: number, dy: number) => {
      const { x, y, k } = view.current;
      look({ k, x: x + dx, y: y + dy }, true);
    },
    [look],
  );
  const lineUnder = useCallback((x: number, y: number): number => {
    const { placed, extent } = state.current;
    if (!placed || !extent) return -1;
    const { k } = view.current;
    return lineAt(extent, (x - view.current.x) / k, (y - view.current.y) / k, 6 / k);
  }, []);
  const boxUnder = useCallback((x: number, y: number): number => {
    const { placed } = state.current;
    if (!placed) return -1;
    const [left, top] = [(x - view.current.x) / view.current.k, (y - view.current.y) / view.current.k];
    return boxesIn(placed, { left, right: left, top, bottom: top })[0] ?? -1;
  }, []);
  const select = useCallback(
    (index: number) => {
      const box = state.current.placed?.scene.boxes[index];
      if (box) onSelect(state.current.chosen === index ? null : box.id);
    },
    [onSelect],
  );
  useGestures(stage, { panBy, zoomBy, lineUnder, boxUnder, onBox: select, onLine: props.onLine, needsCtrl: props.embedded ?? false });

  const focusOn = useCallback(
    (index: number) => {
      const { placed } = state.current;
      if (!placed) return;
      focusNext.current = index;
      setActive(index);
      look(showing(view.current, placed, index, screen.current), touched.current);
      movedAt.current = 0;
    },
    [look],
  );

  useLayoutEffect(() => {
    if (focusNext.current < 0) return;
    const button = world.current?.querySelector<HTMLElement>(`[data-box="${focusNext.current}"]`);
    if (button) {
      focusNext.current = -1;
      button.focus({ preventScroll: true });
    } else mountMore(false);
  });

  const onKeyDown = (event: React.KeyboardEvent) => {
    const at = (event.target as HTMLElement).closest?.("[data-box]");
    if (event.key === "Escape" && props.selected !== null) {
      onSelect(null);
      event.stopPropagation();
    }
    if (!placed || !at || event.altKey || event.ctrlKey || event.metaKey) return;
    const index = Number(at.getAttribute("data-box"));
    if (isArrow(event.key)) {
      event.preventDefault();
      const next = neighbour(placed, index, event.key);
      if (next !== null) focusOn(next);
    } else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
  };

  const focused = useCallback(
    (index: number) => {
      const { placed } = state.current;
      setActive(index);
      if (!placed) return;
      const next = showing(view.current, placed, index, screen.current);
      const far = Math.abs(next.x - view.current.x) + Math.abs(next.y - view.current.y) > 0.5;
      // A press has focused it where it stands; only the keyboard brings boxes into view.
      if (far && stage.current?.querySelector(".face:focus-visible")) look(next, touched.current);
    },
    [look],
  );
  const { onColumn, onMore, onAllColumns } = props;
  const column = useCallback((i: number, name: string) => onColumn?.(state.current.placed!.scene.boxes[i]!.id, name), [onColumn]);
  const more = useCallback(
    (i: number, side: "inputs" | "outputs") => onMore?.(state.current.placed!.scene.boxes[i]!.id, side),
    [onMore],
  );
  const allColumns = useCallback((i: number) => onAllColumns?.(state.current.placed!.scene.boxes[i]!.id), [onAllColumns]);

  const ready = placed !== null && mounted.of === placed;
  const rootBox = placed ? Math.max(0, placed.scene.boxes.findIndex((box) => box.root)) : -1;
  const reachable = active >= 0 && active < (placed?.x.length ?? 0) ? active : chosen >= 0 ? chosen : rootBox;
  const reachableShown = ready && mounted.boxes.includes(reachable) ? reachable : (mounted.boxes[0] ?? -1);
  const attributes = Object.fromEntries(Object.entries(props.data ?? {}).map(([name, value]) => [`data-${name}`, value]));
  return (
    <section className="graph" role="region" aria-label={props.label} aria-busy={props.busy || !ready} {...attributes}>
      <div className="stage" ref={stage} onKeyDown={onKeyDown}>
        <canvas ref={canvas} aria-hidden="true" />
        <div className="world" ref={world}>
          {ready &&
            mounted.boxes.map((i) => (
              <BoxView
                key={placed.scene.boxes[i]!.id}
                box={placed.scene.boxes[i]!}
                index={i}
                x={placed.x[i]!}
                y={placed.y[i]!}
                selected={i === chosen}
                active={i === reachableShown}
                plain={mounted.plain}
                more={props.more?.get(placed.scene.boxes[i]!.id)}
                onSelect={select}
                onFocus={focused}
                onColumn={column}
                onMore={more}
                onAllColumns={allColumns}
              />
            ))}
        </div>
      </div>
      <div className="tools">
        <div className="group" role="group" aria-label="Zoom">
          <button type="button" aria-label="Zoom out" title="Zoom out" onClick={() => zoomBy(0.75)}>
            −
          </button>
          <button type="button" aria-label="Zoom in" title="Zoom in" onClick={() => zoomBy(1.33)}>
            +
          </button>
          <button
            type="button"
            title="Show the whole graph"
            onClick={() => {
              if (!placed) return;
              look(fit(placed.size, screen.current), false);
              touched.current = placed.scene.boxes.length > ALL_IN_VIEW;
            }}
          >
            Fit
          </button>
        </div>
        {props.tools}
        <MiniMap placed={placed} view={view} screen={screen} draw={drawMap} chosen={chosen} onLook={(next) => look(next, true)} />
      </div>
    </section>
  );
}
