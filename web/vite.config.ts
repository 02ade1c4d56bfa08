import { lingui } from "@lingui/vite-plugin";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

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
  server: { proxy: { "/api": process.env.SCOPE_API ?? "http://127.0.0.1:8470" } },
});
