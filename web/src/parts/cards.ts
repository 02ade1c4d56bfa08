import { useEffect, useId, useSyncExternalStore } from "react";

/** A part of the screen, and what filter and selection do to it. */
export interface Card {
  /** As a person knows it. */
  name: string;
  /** Whose rows it shows; none: it shows what no filter of rows applies to, and only the selected times do. */
  stream?: string;
  /** Columns of the filter that its stream does not have: the filter does not apply to it. */
  lacks: string[];
}

const shown = new Map<string, Card[]>();
const watching = new Set<() => void>();
let all: Card[] = [];

function tell(): void {
  all = [...shown.values()].flat();
  for (const one of watching) one();
}

function watch(one: () => void): () => void {
  watching.add(one);
  return () => watching.delete(one);
}

/** Says which cards a part of the screen has, as long as it is shown. */
export function useCards(cards: Card[]): void {
  const id = useId();
  const said = JSON.stringify(cards); // the same cards are new objects whenever a screen is drawn
  useEffect(() => {
    shown.set(id, JSON.parse(said) as Card[]);
    tell();
    return () => {
      shown.delete(id);
      tell();
    };
  }, [id, said]);
}

/** All cards of the screen. */
export function useAllCards(): Card[] {
  return useSyncExternalStore(watch, () => all);
}
