/** Opens each address in one language and theme, and in the other theme, too; tells what is wrong with it. */
import { faults, picture, settled, wide } from "./page.mjs";

const OTHER = { dark: "light", light: "dark" };

export default async function ({ given, open, tell }) {
  const { page, wrong } = await open();
  const inOtherTheme = async (look) => {
    const theme = (to) => page.evaluate((to) => (document.documentElement.dataset.theme = to), to);
    await theme(OTHER[given.theme]);
    await settled(page);
    await look();
    await theme(given.theme);
  };
  for (const [name, address] of Object.entries(given.screens)) {
    wrong.length = 0;
    await page.goto(given.base + address);
    await settled(page);
    await picture(page, `${given.pictures}/${name}-${given.kind}.jpg`);
    const found = given.axe ? await faults(page) : [];
    // What else depends on the theme than colours was looked at: the page is the same one.
    if (given.axe) {
      await inOtherTheme(async () => {
        await page.screenshot({ path: `${given.pictures}/${name}-${given.kind}-${OTHER[given.theme]}.jpg`, type: "jpeg" });
        found.push(...(await faults(page, ["color-contrast"])));
      });
    }
    tell({ name, wrong: [...wrong], faults: found, wide: await wide(page), text: await page.innerText("body") });
  }
}
