/** Opens each address in one language and theme, and the dialogs of its screen. With `closely`, they are also looked at for
 * accessibility, in the other theme, and as wide as a phone. */
import { drawn, faults, picture, settled, wide } from "./page.mjs";

const OTHER = { dark: "light", light: "dark" };
const PHONE = { width: 390, height: 844 };
const DIALOG = "[role=dialog], [role=menu], .command";

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const inOtherTheme = async (look) => {
    const theme = (to) => page.evaluate((to) => (document.documentElement.dataset.theme = to), to);
    await theme(OTHER[given.theme]);
    await settled(page);
    await look();
    await theme(given.theme);
  };
  const onPhone = async (look) => {
    const desk = page.viewportSize();
    await page.setViewportSize(PHONE);
    await settled(page);
    const found = await look();
    await page.setViewportSize(desk);
    return found;
  };
  const seen = (path) => page.screenshot({ path, type: "jpeg", quality: 80 });
  const looked = async (name, { taken = (path) => picture(page, path), part } = {}) => {
    const file = `${given.pictures}/${name}-${given.kind}`;
    await taken(`${file}.jpg`);
    const found = { name, wide: await wide(page), text: await page.innerText("body"), faults: [] };
    if (given.closely) {
      found.faults = await faults(page, { part });
      const before = await drawn(page);
      // What else depends on the theme than colours was looked at: the page is the same one.
      await inOtherTheme(async () => {
        await seen(`${file}-${OTHER[given.theme]}.jpg`);
        found.faults.push(...(await faults(page, { rules: ["color-contrast"], part })));
        const after = await drawn(page);
        found.emptied = before.filter((was, number) => was && !after[number]).length;
      });
      found.wideOnPhone = await onPhone(async () => {
        await taken(`${given.pictures}/${name}-phone.jpg`);
        return wide(page);
      });
    }
    tell({ ...found, wrong: [...wrong] });
  };
  for (const [name, address] of Object.entries(given.screens)) {
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    await looked(name);
    for (const [dialog, buttons] of Object.entries(given.dialogs[name] ?? {})) {
      for (const button of buttons) await page.locator(button).first().click();
      await page.locator(DIALOG).first().waitFor();
      await settled(page);
      await looked(dialog, { taken: seen, part: DIALOG });
      await page.keyboard.press("Escape");
    }
  }
}
