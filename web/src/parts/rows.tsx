import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";

import type { Row } from "../api/answers";
import { type Column, kindOf } from "../api/columns";
import { cell, cellOf, clock, moment } from "./format";
import { meaning } from "./meaning";
import "./rows.css";

interface Props {
  rows: Row[];
  columns: Column[];
  label: string;
  /** Called when the end is near. */
  more?: () => void;
  onOpen: (row: Row) => void;
  height?: number;
}

const HIGH = 26;
const NEAR = 40; // rows before the end at which more are asked for

/** A table of any number of rows, of which only those in sight are in the page. */
export function Rows({ rows, columns, label, more, onOpen, height = 420 }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => place.current, estimateSize: () => HIGH, overscan: 12 });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= rows.length - NEAR) more();
  }, [more, last, rows.length]);
  const press = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length };
    const move = moves[event.key];
    const row = rows[at];
    if (move) {
      const next = Math.min(Math.max(at + move, 0), rows.length - 1);
      setAt(next);
      virtual.scrollToIndex(next);
    } else if (event.key === "Enter" && row) onOpen(row);
    else return;
    event.preventDefault();
  };
  const least = 128 + 90 + columns.reduce((sum, column) => sum + (isNumber(column) ? 84 : 110) + 12, 44);
  const template = ["128px", "minmax(90px, 0.7fr)", ...columns.map(widthOf)].join(" ");
  return (
    <div className="rows scroll" ref={place} style={{ height }} tabIndex={0} onKeyDown={press} role="grid" aria-label={label} aria-rowcount={rows.length}>
      <div className="rows-head" role="row" style={{ gridTemplateColumns: template, minWidth: least }}>
        <div role="columnheader">time</div>
        <div role="columnheader">machine</div>
        {columns.map((column) => (
          <div role="columnheader" key={column.name} title={meaning(column.meaning)} className={isNumber(column) ? "number" : ""}>
            {column.name}
          </div>
        ))}
      </div>
      <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {shown.map(({ index, start }) => {
          const row = rows[index] ?? {};
          return (
            <div
              role="row"
              key={index}
              aria-rowindex={index + 1}
              aria-selected={index === at}
              className="rows-row"
              style={{ gridTemplateColumns: template, minWidth: least, transform: `translateY(${start}px)` }}
              onClick={() => {
                setAt(index);
                onOpen(row);
              }}
            >
              <div role="gridcell" title={moment(String(row.time))}>
                {precise(String(row.time))}
              </div>
              <div role="gridcell" className="clip">
                {cell(row.hostname)}
              </div>
              {columns.map((column) => {
                const text = cellOf(row, column);
                return (
                  <div role="gridcell" key={column.name} className={isNumber(column) ? "number clip" : "clip"} title={text}>
                    {text}
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** A time to the microsecond. */
function precise(time: string): string {
  const fraction = /\.(\d{1,6})/.exec(time)?.[1] ?? "0";
  return `${clock(time)}.${fraction.padEnd(6, "0").slice(0, 6)}`;
}

function isNumber(column: Column): boolean {
  const kind = kindOf(column);
  return kind === "whole" || kind === "number";
}

function widthOf(column: Column): string {
  return isNumber(column) ? "minmax(84px, 0.5fr)" : "minmax(110px, 1fr)";
}
