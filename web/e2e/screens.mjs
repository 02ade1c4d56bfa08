/** Opens each address in one language and theme. With `closely`, it is also looked at for accessibility, in the other
 * theme, and as wide as a phone. */
import { drawn, faults, picture, settled, wide } from "./page.mjs";

const OTHER = { dark: "light", light: "dark" };
const PHONE = { width: 390, height: 844 };

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
  for (const [name, address] of Object.entries(given.screens)) {
    const file = `${given.pictures}/${name}-${given.kind}`;
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    await picture(page, `${file}.jpg`);
    const found = { wide: await wide(page), text: await page.innerText("body"), faults: [] };
    if (given.closely) {
      found.faults = await faults(page);
      const before = await drawn(page);
      // What else depends on the theme than colours was looked at: the page is the same one.
      await inOtherTheme(async () => {
        await page.screenshot({ path: `${file}-${OTHER[given.theme]}.jpg`, type: "jpeg" });
        found.faults.push(...(await faults(page, ["color-contrast"])));
        const after = await drawn(page);
        found.emptied = before.filter((was, number) => was && !after[number]).length;
      });
      found.wideOnPhone = await onPhone(async () => {
        await picture(page, `${given.pictures}/${name}-phone.jpg`);
        return wide(page);
      });
    }
    tell({ name, wrong: [...wrong], ...found });
  }
}
