import { useEffect, useRef, useState } from "react";
import { placeOf } from "./moments";

export function Switch(props: { label: string; on: boolean; disabled?: boolean; hint?: string; onChange: (on: boolean) => void }) {
  return (
    <button
      type="button"
      role="switch"
      className="switch"
      aria-checked={props.on}
      disabled={props.disabled}
      title={props.hint}
      onClick={() => props.onChange(!props.on)}
    >
      <span className="knob" aria-hidden="true" />
      {props.label}
    </button>
  );
}

export function DirectionSelect(props: { value: string; onChange: (value: string) => void }) {
  return (
    <label className="field">
      <span>Direction</span>
      <select value={props.value} onChange={(event) => props.onChange(event.target.value)}>
        <option value="backward">backward</option>
        <option value="forward">forward</option>
        <option value="both">both</option>
      </select>
    </label>
  );
}

export function DepthField(props: { value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  const change = (next: string) => {
    setText(next);
    const number = Number(next);
    if (Number.isInteger(number) && number >= 1 && number <= 100) props.onChange(String(number));
  };
  return (
    <label className="field">
      <span>Depth</span>
      <input type="number" min={1} max={100} step={1} value={text} onChange={(event) => change(event.target.value)} onBlur={() => setText(props.value)} />
    </label>
  );
}

type Move = "back" | "on" | "first" | "now";

const KEYS: Record<string, Move | undefined> = {
  ArrowLeft: "back",
  ArrowDown: "back",
  PageDown: "back",
  ArrowRight: "on",
  ArrowUp: "on",
  PageUp: "on",
  Home: "first",
  End: "now",
};

interface TimeProps {
  label: string;
  time: string | null;
  /** null while they are being found; keys pressed meanwhile are kept. */
  moments: string[] | null;
  onChange: (time: string | null, dragging: boolean) => void;
}

export function timeText(time: string | null): string {
  if (time === null) return "now";
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A slider over the moments at which the graph changed; its right end is now. */
export function TimeSlider({ label, time, moments, onChange }: TimeProps) {
  const [waiting, setWaiting] = useState<Move[]>([]);
  const dragging = useRef(false);
  const last = moments?.length ?? 0;
  const place = moments ? placeOf(moments, time) : time === null ? 0 : -1;
  const goTo = (index: number, drag = false) => {
    if (!moments) return;
    const next = index >= moments.length ? null : moments[Math.max(0, index)]!;
    if (next !== time) onChange(next, drag);
  };
  const step = (from: number, key: Move) =>
    key === "back" ? Math.max(0, Math.ceil(from) - 1) : key === "on" ? Math.min(last, Math.floor(from) + 1) : key === "first" ? 0 : last;
  useEffect(() => {
    if (!moments || !waiting.length) return;
    setWaiting([]);
    goTo(waiting.reduce(step, place));
  });
  const onKeyDown = (event: React.KeyboardEvent) => {
    const meaning = KEYS[event.key];
    if (!meaning) return;
    event.preventDefault();
    if (moments) goTo(step(place, meaning));
    else if (meaning === "now") onChange(null, false);
    else setWaiting((before) => [...before, meaning]);
  };
  return (
    <div className="field time">
      <span aria-hidden="true">{label}</span>
      <input
        type="range"
        aria-label={label}
        min={0}
        max={Math.max(1, last)}
        step={1}
        value={last ? Math.max(0, Math.floor(place)) : time === null ? 1 : 0}
        aria-valuetext={time ?? "now"}
        aria-busy={moments === null}
        onKeyDown={onKeyDown}
        onPointerDown={() => (dragging.current = false)}
        onChange={(event) => {
          goTo(Number(event.target.value), dragging.current);
          dragging.current = true;
        }}
      />
      <span className="shown-time">{timeText(time)}</span>
    </div>
  );
}
