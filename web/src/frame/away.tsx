import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";

import { api, data } from "../api/client";
import { Partial } from "../parts/states";

const ASKED_MS = 10_000;
const SCRIPT = "script[type=module][src]";

/** Says that the server is away, or was upgraded. The page goes on by itself when it is back, and what was typed stays. */
export function Away() {
  const health = useQuery({
    queryKey: ["health"],
    queryFn: ({ signal }) => data(api.GET("/api/v1/health", { signal })),
    refetchInterval: ASKED_MS,
    retry: false,
  });
  const current = useQuery({ queryKey: ["current"], queryFn: ({ signal }) => isCurrent(signal), refetchInterval: ASKED_MS, retry: false, enabled: health.isSuccess });
  if (health.isError) {
    const said = health.error.message;
    return (
      <div className="away">
        <Partial>
          <Trans>The server is away: {said}. This page goes on when it is back.</Trans>
        </Partial>
      </div>
    );
  }
  if (current.data !== false) return null;
  return (
    <div className="away">
      <Partial>
        <Trans>The console was upgraded.</Trans>{" "}
        <button type="button" onClick={() => location.reload()}>
          <Trans>Load the new one</Trans>
        </button>
      </Partial>
    </div>
  );
}

/** Whether the server still has the console that this page is of: scripts are named after their content. */
async function isCurrent(signal: AbortSignal): Promise<boolean> {
  const own = document.querySelector(SCRIPT)?.getAttribute("src");
  const answer = await fetch("/index.html", { signal, cache: "no-cache" });
  return !own || !answer.ok || (await answer.text()).includes(own);
}
