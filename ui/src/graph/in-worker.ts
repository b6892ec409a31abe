import type { LayoutInput, LayoutOutput } from "./layout";

let worker: Worker | null = null;
let tickets = 0;
const waiting = new Map<number, (output: LayoutOutput) => void>();

export function inWorker(input: LayoutInput): Promise<LayoutOutput> {
  if (!worker) {
    worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<{ ticket: number; output: LayoutOutput }>) => {
      waiting.get(event.data.ticket)?.(event.data.output);
      waiting.delete(event.data.ticket);
    };
  }
  const ticket = ++tickets;
  const answer = new Promise<LayoutOutput>((resolve) => waiting.set(ticket, resolve));
  worker.postMessage({ ticket, input });
  return answer;
}
