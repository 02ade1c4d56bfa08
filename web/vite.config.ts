import { lingui } from "@lingui/vite-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react(), lingui({ macroTransform: true, failOnMissing: true })],
  build: {
    outDir: "../src/scope_server/console",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the policy allows no data: scripts or styles
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    target: "es2023",
  },
  test: { isolate: false }, // a process for each file takes most of the time, and no test leaves anything behind
  server: { proxy: { "/api": process.env.SCOPE_API ?? "http://127.0.0.1:8470" } },
});
