/** How long a person waits for screens of a full store, and how smoothly a large flame graph moves. Times in ms. */
import { settled } from "./page.mjs";

const ROUNDS = 5;
const MOVED_MS = 3000;

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const waited = async (address, drawn) => {
    const took = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const began = performance.now();
      await page.goto(given.base + address, { waitUntil: "commit" });
      await page.waitForFunction((drawn) => document.querySelector(drawn), drawn); // waitForSelector looks twice a second
      await settled(page);
      took.push(performance.now() - began);
    }
    return took.sort((one, other) => one - other)[ROUNDS >> 1];
  };
  const first = await firstView(page, given.base);
  const overview = await waited("/", "#screen .chart canvas");
  const heatmap = await waited(`/explore/syscall?since=${given.since}&until=${given.until}`, ".heatmap canvas");
  const flames = await waited(`/flames/cuda_launch?since=${given.since}&until=${given.until}`, ".flames canvas");
  await page.screenshot({ path: `${given.pictures}/bench-flames.png` });
  tell({ first, overview, heatmap, flames, frames: await smoothness(page), wrong });
}

/** From the click on the address to the first picture with content, with nothing of the page in the browser's cache. */
async function firstView(page, base) {
  const client = await page.context().newCDPSession(page);
  await client.send("Network.clearBrowserCache");
  await page.goto(`${base}/`);
  await settled(page);
  return page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
}

/** Pictures a second, while the pointer moves over the graph, its rows scroll, and it is zoomed. */
async function smoothness(page) {
  const counted = page.evaluate(
    (during) =>
      new Promise((done) => {
        const gaps = [];
        let last = performance.now();
        const end = last + during;
        const next = (now) => {
          gaps.push(now - last);
          last = now;
          if (now < end) requestAnimationFrame(next);
          else done({ a_second: (1000 * gaps.length) / during, longest_ms: Math.max(...gaps) });
        };
        requestAnimationFrame(next);
      }),
    MOVED_MS,
  );
  const box = await page.locator(".flames-scroll").boundingBox();
  const end = performance.now() + MOVED_MS;
  for (let step = 0; performance.now() < end; step += 1) {
    await page.mouse.move(box.x + ((step * 37) % box.width), box.y + 10 + ((step * 11) % (box.height - 20)));
    if (step % 20 === 10) await page.mouse.wheel(0, step % 40 === 10 ? 60 : -60);
    if (step % 50 === 25) await page.mouse.down().then(() => page.mouse.up());
    if (step % 50 === 45) await page.keyboard.press("Escape");
  }
  return counted;
}
