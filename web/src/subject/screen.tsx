import { useLingui } from "@lingui/react/macro";
import { useMemo } from "react";

import { useAllTotals } from "../parts/series";
import { Shows } from "./cards";
import { NotRecorded } from "./notrecorded";
import { Pictured } from "./pictured";
import { type Card, chosen, type Subject } from "./subject";
import "./subject.css";

/** A subject: its streams over time, what differs in a brushed part, and the cards that it declares. */
export function SubjectScreen({ of: { title, meaning, probe, streams, lines } }: { of: Subject }) {
  const { i18n } = useLingui();
  const names = useMemo(() => namesOf(streams, lines), [streams, lines]);
  const totals = useAllTotals(names, { all: true });
  const counts = new Map(names.map((name, number) => [name, totals[number]?.data?.groups[0]?.values.count ?? 0]));
  const isKnown = totals.every((one) => one.data !== undefined || one.error);
  const recorded = new Set(names.filter((name) => counts.get(name)));
  const isShown = (card: Card) => card.show === "own" || recorded.has(chosen(card.of, recorded)?.stream ?? "");
  return (
    <div className="screen">
      <header>
        <h1>{i18n._(title)}</h1>
        <span className="soft">{i18n._(meaning)}</span>
      </header>
      <Pictured streams={streams} counts={counts} probe={probe} isKnown={isKnown} />
      {lines.map((cards, line) => {
        const shown = cards.filter(isShown);
        return (
          shown.length > 0 && (
            <div key={line} className={shown.length > 1 ? "cards" : undefined}>
              {shown.map((card, place) => (
                <Shows key={place} card={card} recorded={recorded} />
              ))}
            </div>
          )
        );
      })}
      {isKnown && <NotRecorded cards={lines.flat().filter((card) => !isShown(card))} />}
    </div>
  );
}

function namesOf(streams: Subject["streams"], lines: Subject["lines"]): string[] {
  const ofCards = lines.flat().flatMap((card) => (card.show === "own" ? [] : card.of.map((one) => one.stream)));
  return [...new Set([...streams, ...ofCards])];
}
