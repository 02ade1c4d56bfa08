/** Hands a trace to ui.perfetto.dev in another tab, by messages between the two pages: nothing is uploaded. */

const ADDRESS = "https://ui.perfetto.dev";
const ASK_MS = 50;
const PATIENCE_MS = 30_000;

export function open(): Window | null {
  return window.open(ADDRESS);
}

/** Waits until the page answers, then sends the trace. Throws if it does not answer. */
export async function handOver(tab: Window, buffer: ArrayBuffer, title: string): Promise<void> {
  await answered(tab);
  tab.postMessage({ perfetto: { buffer, title, keepApiOpen: false } }, ADDRESS, [buffer]);
}

function answered(tab: Window): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (act: () => void) => {
      clearInterval(asking);
      clearTimeout(patience);
      removeEventListener("message", hear);
      act();
    };
    const hear = (event: MessageEvent) => {
      if (event.origin === ADDRESS && event.source === tab && event.data === "PONG") end(resolve);
    };
    const asking = setInterval(() => tab.postMessage("PING", ADDRESS), ASK_MS);
    const patience = setTimeout(() => end(() => reject(new Error(`${ADDRESS} does not answer; download the trace instead`))), PATIENCE_MS);
    addEventListener("message", hear);
  });
}
