/** What is asked in the background keeps below a server's limit of requests, so that it never stands in the way of the rest. */

const AT_ONCE = 20;
const PER_SECOND = 25;

let left = AT_ONCE;
let since = 0;

/** How long to wait before the next request, in milliseconds; counts it. */
export function nextTurn(now: number): number {
  left = Math.min(AT_ONCE, left + ((now - since) / 1000) * PER_SECOND);
  since = now;
  left -= 1;
  return left >= 0 ? 0 : (-left / PER_SECOND) * 1000;
}

export async function paced<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const wait = nextTurn(performance.now());
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  signal.throwIfAborted();
  return work();
}
