/** Positions for a scene: small ones at once, large ones in a worker, so that the page stays alive meanwhile. */

import { useEffect, useMemo, useRef, useState } from "react";
import { layout, type LayoutInput, type LayoutOutput } from "./layout";
import { layoutInput, place, type Placed, type Scene } from "./scene";

const AT_ONCE = 150;

export type Arrange = (input: LayoutInput) => Promise<LayoutOutput>;

/** The last picture stays until the new one is there. The same boxes and lines keep their places. */
export function useLayout(scene: Scene | null, arrange: Arrange): { placed: Placed | null; busy: boolean } {
  const key = useMemo(() => (scene ? signature(scene) : null), [scene]);
  const known = useRef<{ key: string; output: LayoutOutput } | null>(null);
  const [done, setDone] = useState<string | null>(null);
  if (scene && key !== null && known.current?.key !== key && scene.boxes.length <= AT_ONCE) {
    known.current = { key, output: layout(layoutInput(scene)) };
  }
  useEffect(() => {
    if (!scene || key === null || known.current?.key === key) return;
    let stale = false;
    void arrange(layoutInput(scene)).then((output) => {
      if (stale) return;
      known.current = { key, output };
      setDone(key);
    });
    return () => {
      stale = true;
    };
  }, [key, scene, arrange]);
  const fresh = key !== null && known.current?.key === key;
  const last = useRef<Placed | null>(null);
  const placed = useMemo(() => {
    if (scene && fresh) last.current = place(scene, known.current!.output);
    return last.current;
    // `done` says that the worker has answered.
  }, [scene, fresh, done]);
  return { placed: scene ? placed : null, busy: scene !== null && !fresh };
}

function signature(scene: Scene): string {
  const boxes = scene.boxes.map((box) => `${box.id}:${box.columns.length}:${box.hidden ? 1 : 0}`).join(" ");
  return `${boxes}|${scene.pairs.map((pair) => pair.join(">")).join(" ")}`;
}
