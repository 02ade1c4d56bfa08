/** Opens a trace in Perfetto: a stand-in answers at its address, as its page does. */
import { settled } from "./page.mjs";

const ADDRESS = "https://ui.perfetto.dev";
const STAND_IN = `<!doctype html><script>
  addEventListener("message", ({ data, source, origin }) => {
    if (data === "PING") source.postMessage("PONG", origin);
    else window.got = data.perfetto;
  });
</script>`;

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const sent = [];
  page.context().on("request", (request) => request.url().startsWith(ADDRESS) && request.method() !== "GET" && sent.push(request.url()));
  await page.context().route(`${ADDRESS}/**`, (route) => route.fulfill({ contentType: "text/html", body: STAND_IN }));
  await page.goto(`${given.base}/traces?since=15m&with=exec`);
  await settled(page);
  const opening = page.waitForEvent("popup");
  await page.click("button:has-text('Open in Perfetto')");
  const tab = await opening;
  await tab.waitForFunction(() => window.got);
  const got = await tab.evaluate(() => ({ bytes: got.buffer.byteLength, first: new Uint8Array(got.buffer)[0], title: got.title }));
  await page.waitForSelector("text=Handed over.");
  tell({ ...got, sent, wrong });
}
