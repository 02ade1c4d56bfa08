import { Trans, useLingui } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { streams } from "../api/catalogue";
import { useAddress } from "../parts/search";
import type { Card } from "./subject";

/** Which cards are left out because nothing in the window tells of them, and the probes that would. */
export function NotRecorded({ cards }: { cards: Card[] }) {
  const { i18n } = useLingui();
  const [search] = useAddress();
  const known = useQuery(streams).data ?? [];
  const titles = new Map<string, string[]>(); // by stream
  for (const card of cards) {
    const [best] = card.show === "own" ? [] : card.of;
    if (card.show !== "own" && best) titles.set(best.stream, [...(titles.get(best.stream) ?? []), i18n._(card.title)]);
  }
  if (titles.size === 0) return;
  return (
    <section className="card not-recorded">
      <h2>
        <Trans>Not recorded in this window</Trans>
      </h2>
      <ul>
        {[...titles].map(([stream, all]) => {
          const probe = known.find((one) => one.name === stream)?.probe;
          return (
            <li key={stream}>
              <code>{stream}</code> <span className="soft">{all.join(" · ")}</span>{" "}
              {probe && (
                <Link to="/start" search={{ probe, machine: search.machine }}>
                  <Trans>Start the probe {probe}</Trans>
                </Link>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
