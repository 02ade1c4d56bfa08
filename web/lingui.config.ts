import { defineConfig } from "@lingui/cli";
import { formatter } from "@lingui/format-po";

export default defineConfig({
  sourceLocale: "en",
  locales: ["en", "zh"],
  catalogs: [{ path: "src/locales/{locale}", include: ["src"] }],
  format: formatter({ lineNumbers: false }),
  orderBy: "message",
});
