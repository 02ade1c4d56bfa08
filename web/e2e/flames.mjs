/** What a flame graph says of its outermost frames: reached with the arrow keys, as it has the focus. */

/** The text of each frame down to a depth below the root, with the names of the frames that it is in. */
export async function frames(page, depth) {
  const told = page.locator(".flames-told").last();
  const name = () => told.locator("b").innerText();
  const moved = async (key) => {
    const before = await told.innerText();
    await page.keyboard.press(key);
    return (await told.innerText()) !== before;
  };
  const found = [];
  const walk = async (within, left) => {
    do {
      const path = [...within, await name()];
      found.push({ path, told: await told.innerText() });
      if (left > 0 && (await moved("ArrowDown"))) {
        await walk(path, left - 1);
        await page.keyboard.press("ArrowUp");
      }
    } while (within.length && (await moved("ArrowRight")));
  };
  await page.keyboard.press("ArrowUp"); // to the root
  await walk([], depth);
  return found.map(({ path, told: text }) => ({ path, ...shares(text) }));
}

/** Shares of the whole graph, inside and outside, in percent. */
function shares(text) {
  const [, inside] = /\(([\d.]+)\s?%\)/.exec(text) ?? [];
  const [, outside] = /outside ([\d.]+)\s?%/.exec(text) ?? [];
  return { inside: Number(inside), outside: Number(outside) };
}
