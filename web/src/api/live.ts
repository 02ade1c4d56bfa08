import { useEffect, useRef, useState } from "react";

import type { Row } from "./answers";
import { address } from "./client";

const KEPT = 1000; // newest rows, so that memory stays flat however long a page is open

export interface Live {
  rows: Row[];
  missed: number;
  state: "connecting" | "open" | "away";
  problem: string;
}

const EMPTY: Live = { rows: [], missed: 0, state: "connecting", problem: "" };

/** Rows of a stream as they are stored, newest first. Drawn at most twice a second. */
export function useLive(stream: string, query: { where?: string; machine?: string }, on: boolean): Live {
  const [live, setLive] = useState(EMPTY);
  const waiting = useRef<Row[]>([]);
  const { where, machine } = query;
  useEffect(() => {
    if (!on) return;
    setLive(EMPTY);
    waiting.current = [];
    const source = new EventSource(address(`live/${stream}`, { where, machine }));
    const say = (change: Partial<Live>) => setLive((before) => ({ ...before, ...change }));
    source.onopen = () => say({ state: "open", problem: "" });
    source.onerror = () => say({ state: "away" });
    source.addEventListener("rows", (event) => waiting.current.unshift(...(JSON.parse(event.data) as Row[]).reverse()));
    source.addEventListener("missed", (event) => {
      const { events } = JSON.parse(event.data) as { events: number };
      setLive((before) => ({ ...before, missed: before.missed + events }));
    });
    source.addEventListener("problem", (event) => say({ problem: (JSON.parse(event.data) as { detail: string }).detail }));
    const draw = setInterval(() => {
      const fresh = waiting.current.splice(0, KEPT);
      waiting.current = [];
      if (fresh.length) setLive((before) => ({ ...before, rows: [...fresh, ...before.rows].slice(0, KEPT) }));
    }, 500);
    return () => {
      source.close();
      clearInterval(draw);
    };
  }, [stream, where, machine, on]);
  return live;
}
