/** A page that is live for a long time: what its heap holds after a collection, its nodes and its listeners, each minute. */
import { settled } from "./page.mjs";

const MINUTE_MS = 60_000;

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const client = await page.context().newCDPSession(page);
  await client.send("HeapProfiler.enable");
  await page.goto(`${given.base}${given.address}`);
  await settled(page);
  for (let minute = 0; minute < given.minutes; minute += 1) {
    await page.waitForTimeout(MINUTE_MS);
    await client.send("HeapProfiler.collectGarbage");
    const { usedSize } = await client.send("Runtime.getHeapUsage");
    const { nodes, jsEventListeners } = await client.send("Memory.getDOMCounters");
    tell({ bytes: usedSize, nodes, listeners: jsEventListeners, rows: await page.locator(".rows-row").count(), wrong: [...wrong] });
  }
}
