import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` beside a `whence serve` on its usual port.
const api = "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/whence/serve/page",
    emptyOutDir: true,
    target: "es2022",
    // The page's CSP has no data: and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": api, "/health": api } },
});
