import { layout, type LayoutInput } from "./layout";

self.onmessage = (event: MessageEvent<{ ticket: number; input: LayoutInput }>) => {
  const { ticket, input } = event.data;
  self.postMessage({ ticket, output: layout(input) });
};
