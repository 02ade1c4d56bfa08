import { useQuery } from "@tanstack/react-query";

import { streams } from "../api/catalogue";
import { measured, type Stream } from "../api/columns";
import { useCards } from "./cards";
import { both } from "./complete";
import { filterOf, isWhole, lacking, read } from "./grammar";
import { type Search, useAddress } from "./search";
import { askedPart, isLive, readSelection, selecting, type Times, timesOf } from "./times";

/** What a card asks of a stream's rows: the page's window or its selected part, machine, task, and filter. */
export interface Asked {
  /** What the answer depends on. */
  key: unknown[];
  /** Parameters of the API, as of now. */
  now: () => { since: string; until: string; machine?: string; task?: string; where?: string };
  times: () => Times;
  /** Whether what it asks moves on with time. */
  live: boolean;
  /** Whether it is known if the filter applies. */
  ready: boolean;
}

interface How {
  /** The name of the card; none: that of the stream. */
  card?: string;
  /** A condition of the card itself. */
  own?: string;
  /** It shows all of the window, and the selection as a part of it. */
  whole?: boolean;
  /** It is about all rows, also those that the filter leaves out. */
  all?: boolean;
  /** None: that of the page. */
  machine?: string;
}

/** What a card asks of one stream. */
export function useAsked(stream: string, how: How = {}): Asked {
  return useAllAsked([stream], how)[0] as Asked;
}

/** What a card asks of several streams. */
export function useAllAsked(names: string[], { card, own, whole = false, all = false, machine }: How = {}): Asked[] {
  const [search] = useAddress();
  const known = useQuery(streams).data;
  const found = names.map((name) => ({ name, stream: known?.find((one) => one.name === name) }));
  useCards(known && !all ? found.map(({ name, stream }) => ({ name: card ?? name, stream: name, lacks: lacking(search.where, stream) })) : []);
  const of = { ...search, ...(all && { where: undefined }), ...(machine && { machine }) };
  return found.map(({ name, stream }) => askedOf(of, name, stream, known !== undefined, own, whole));
}

/**
 * The page's filter for a card that several streams together tell of; it has to have a stream with all its columns.
 * Undefined: there is none, it is no filter yet, or it does not apply.
 */
export function useFilterAmong(names: string[], card: string): { where?: string; ready: boolean } {
  const [{ where }] = useAddress();
  const known = useQuery(streams).data;
  const lacks = names.map((name) => lacking(where, known?.find((one) => one.name === name))).sort((one, other) => one.length - other.length)[0] ?? [];
  useCards(known ? names.map((stream) => ({ name: card, stream, lacks })) : []);
  return { where: known && lacks.length === 0 && where && isWhole(read(where)) ? where : undefined, ready: known !== undefined || !where };
}

function askedOf(search: Search, name: string, stream: Stream | undefined, known: boolean, own: string | undefined, whole: boolean): Asked {
  const { since, until, machine, task } = search;
  const selection = whole ? undefined : readSelection(search.brushed);
  const filter = both(filterOf(search, stream), own);
  const column = stream && selection?.stream === name ? measured(stream)?.name : undefined;
  const where = selection ? selecting(selection, column, filter) : filter;
  const times = () => selection ?? timesOf(search);
  const part = { since, until, brushed: selection && search.brushed };
  return {
    key: [name, machine, task, where, part],
    now: () => ({ ...askedPart(part), machine, task, where }),
    times,
    live: isLive(search) && !selection,
    ready: known || !(search.where || selection),
  };
}
