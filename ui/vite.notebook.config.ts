import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// One script and one style sheet, which Python puts into the HTML that a notebook keeps: nothing is loaded later.
export default defineConfig({
  plugins: [react()],
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "../src/whence/serve/page/notebook",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    lib: { entry: "src/notebook/main.tsx", formats: ["iife"], name: "whence", fileName: () => "notebook.js", cssFileName: "notebook" },
  },
});
