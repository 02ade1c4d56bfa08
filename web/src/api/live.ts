import { useEffect, useRef, useState } from "react";

import type { Row } from "./answers";
import { address, api } from "./client";

const AGAIN_MS = 2000; // until the next try, after the server refused
const KEPT = 1000; // newest rows, so that memory stays flat however long a page is open

export interface Live {
  rows: Row[];
  missed: number;
  state: "connecting" | "open" | "away";
  problem: string;
}

const EMPTY: Live = { rows: [], missed: 0, state: "connecting", problem: "" };

/** Rows of a stream as they are stored, newest first. Drawn at most twice a second. */
export function useLive(stream: string, query: { where?: string; machine?: string; task?: string }): Live {
  const [live, setLive] = useState(EMPTY);
  const waiting = useRef<Row[]>([]);
  const { where, machine, task } = query;
  useEffect(() => {
    setLive(EMPTY);
    waiting.current = [];
    let source: EventSource;
    let next: ReturnType<typeof setTimeout>;
    const say = (change: Partial<Live>) => setLive((before) => ({ ...before, ...change }));
    const open = () => {
      source = new EventSource(address(`live/${stream}`, { where, machine, task }));
      source.onopen = () => say({ state: "open", problem: "" });
      source.onerror = () => {
        say({ state: "away" });
        // A browser itself tries again after a cut, but not after an answer such as "starting" or "login expired".
        if (source.readyState === EventSource.CLOSED) next = setTimeout(() => void again(), AGAIN_MS);
      };
      source.addEventListener("rows", (event) => {
        // At most so many: the timer of a page that nobody sees runs once a minute.
        waiting.current = [...(JSON.parse(event.data) as Row[]).reverse(), ...waiting.current].slice(0, KEPT);
      });
      source.addEventListener("missed", (event) => {
        const { events } = JSON.parse(event.data) as { events: number };
        setLive((before) => ({ ...before, missed: before.missed + events }));
      });
      source.addEventListener("problem", (event) => say({ problem: (JSON.parse(event.data) as { detail: string }).detail }));
    };
    const again = async () => {
      await api.GET("/api/v1/auth/me", {}).catch(() => undefined); // renews the login, if that has expired
      if (!ended) open();
    };
    let ended = false;
    open();
    const draw = setInterval(() => {
      const fresh = waiting.current;
      waiting.current = [];
      if (fresh.length) setLive((before) => ({ ...before, rows: [...fresh, ...before.rows].slice(0, KEPT) }));
    }, 500);
    return () => {
      ended = true;
      clearTimeout(next);
      source.close();
      clearInterval(draw);
    };
  }, [stream, where, machine, task]);
  return live;
}
