/** Search as you type: a combobox whose options are datasets, columns and runs. */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "react";
import { ask, type Found, type List } from "./api";
import { address, go, lineageOf } from "./route";

export function placeOfFound(found: Found): string {
  if (found.run) return `/runs/${encodeURIComponent(found.run.id)}`;
  if (found.dataset && found.column !== null) return lineageOf(found.dataset, { level: "column", column: found.column });
  return found.dataset ? lineageOf(found.dataset) : "/";
}

export function foundName(found: Found): { name: string; beside: string } {
  if (found.run) return { name: found.run.name || found.run.id, beside: `run · ${found.run.status}` };
  const dataset = found.dataset!;
  if (found.column !== null) return { name: found.column, beside: `column of ${dataset.name}` };
  return { name: dataset.name, beside: `${dataset.kind} · ${dataset.namespace}` };
}

const SOON_MS = 90;

export function SearchBox({ text }: { text: string }) {
  const [typed, setTyped] = useState(text);
  const [answer, setAnswer] = useState<{ words: string; items: Found[] } | null>(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  const asking = useRef(0);
  // Keys that came before the answer: they count once it is there.
  const early = useRef<"" | "first" | "open first">("");
  useEffect(() => setTyped(text), [text]);

  useLayoutEffect(() => {
    const slash = (event: KeyboardEvent) => {
      const inField = (event.target as HTMLElement | null)?.closest?.("input, textarea, select, [contenteditable]");
      if (event.key !== "/" || inField || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", slash);
    return () => document.removeEventListener("keydown", slash);
  }, []);

  const choose = (found: Found) => {
    setOpen(false);
    setAt(-1);
    setTyped(text);
    input.current?.blur();
    go(placeOfFound(found));
  };

  useEffect(() => {
    const words = typed.trim();
    const turn = ++asking.current;
    if (!open || !words) {
      setAnswer(null);
      return;
    }
    const ending = new AbortController();
    const timer = setTimeout(() => {
      ask<List<Found>>("/search", { q: words, limit: 12 }, ending.signal).then(
        ({ items }) => {
          if (turn !== asking.current) return;
          const keys = early.current;
          early.current = "";
          if (keys === "open first" && items.length) return choose(items[0]!);
          setAnswer({ words, items });
          setAt(keys && items.length ? 0 : -1);
        },
        () => turn === asking.current && !ending.signal.aborted && setAnswer({ words, items: [] }),
      );
    }, SOON_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [typed, open]);

  const results = answer?.items ?? null;
  const fresh = answer !== null && answer.words === typed.trim();
  const onKeyDown = (event: React.KeyboardEvent) => {
    const count = fresh ? answer.items.length : 0;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      if (!fresh) early.current = event.key === "ArrowDown" ? "first" : "";
      else if (count) setAt((i) => (event.key === "ArrowDown" ? (i + 1) % count : (Math.max(i, 0) - 1 + count) % count));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!fresh && early.current) early.current = "open first";
      else if (open && fresh && at >= 0 && answer.items[at]) choose(answer.items[at]);
      else if (typed.trim()) {
        setOpen(false);
        go(address("/search", { q: typed.trim() }));
      }
    } else if (event.key === "Escape") {
      if (open && results) setOpen(false);
      else input.current?.blur();
      event.stopPropagation();
    }
  };
  const shown = open && results !== null;
  return (
    <div className="search" role="search" onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && setOpen(false)}>
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search"
        aria-autocomplete="list"
        aria-expanded={shown && results.length > 0}
        aria-controls={list}
        aria-activedescendant={shown && at >= 0 ? `${list}-${at}` : undefined}
        placeholder="Search datasets, columns, runs"
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setOpen(true);
          setAt(-1);
          early.current = "";
        }}
        onFocus={() => typed.trim() && typed !== text && setOpen(true)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      <ul id={list} role="listbox" aria-label="Results" hidden={!shown || !results.length}>
        {shown &&
          results.map((found, i) => {
            const { name, beside } = foundName(found);
            return (
              <li
                key={i}
                id={`${list}-${i}`}
                role="option"
                aria-selected={i === at}
                onPointerDown={(event) => event.preventDefault()}
                onClick={() => choose(found)}
                onPointerMove={() => setAt(i)}
              >
                <span className="name">{name}</span> <small>{beside}</small>
              </li>
            );
          })}
      </ul>
      {shown && !results.length && (
        <p className="none" role="status">
          Nothing has “{typed.trim()}” in its name.
        </p>
      )}
    </div>
  );
}
