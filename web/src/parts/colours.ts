/** A colour of the theme, for canvases. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const SERIES = 8;

/** The name of the colour of a series. */
export function series(number: number): string {
  return `c${(number % SERIES) + 1}`;
}

/** Redraws when the theme changes. */
export function onTheme(act: () => void): () => void {
  const media = matchMedia("(prefers-color-scheme: dark)");
  const watch = new MutationObserver(act);
  watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  media.addEventListener("change", act);
  return () => {
    watch.disconnect();
    media.removeEventListener("change", act);
  };
}
