/** A person who has a keyboard and nothing else: what is wanted is reached with Tab, in the page's own order. */

const MOST_TABS = 150; // more would be no use to a person
const OTHER_WAYS = ["click", "dblclick", "tap", "hover", "focus", "fill", "check", "selectOption", "goto"];

/** Tab, Enter, arrows and letters on an open page; all other ways to it fail from now on. */
export function keyboard(page) {
  for (const way of OTHER_WAYS) {
    page[way] = () => {
      throw new Error(`page.${way}: there is only a keyboard`);
    };
  }
  const press = async (key, times = 1) => {
    for (let time = 0; time < times; time += 1) await page.keyboard.press(key);
  };
  /** Presses Tab until what matches, and has a text, has the focus. */
  const tabTo = async (selector, text = "") => {
    const passed = [];
    for (let tabs = 0; tabs < MOST_TABS; tabs += 1) {
      await page.keyboard.press("Tab");
      const [reached, name] = await page.evaluate(
        ([selector, text]) => {
          const at = document.activeElement;
          return [at.matches(selector) && at.textContent.includes(text), `${at.tagName}.${at.className} ${at.textContent.slice(0, 20)}`];
        },
        [selector, text],
      );
      if (reached) return tabs + 1;
      passed.push(name);
    }
    throw new Error(`Tab does not reach ${selector} ${text}; it reached\n${[...new Set(passed)].join("\n")}`);
  };
  const type = (text) => page.keyboard.type(text);
  return { press, tabTo, type };
}
