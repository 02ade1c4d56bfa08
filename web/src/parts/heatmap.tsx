import { useLingui } from "@lingui/react/macro";
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from "react";

import { colour, onTheme } from "./colours";
import { clock, count } from "./format";
import "./heatmap.css";
import { MarkLegend } from "./marklegend";
import { drawMarks, type Mark, textsAt } from "./marks";
import type { Selection } from "./times";

export interface HeatmapData {
  since: string;
  until: string;
  step_s: number;
  unit: string;
  /** Lower bounds, ascending. */
  edges: number[];
  /** Per step, per edge. */
  counts: number[][];
}

interface Props {
  data: HeatmapData;
  format: (value: number) => string;
  marks: Mark[];
  selection?: Selection;
  onSelect: (selection: Brush | undefined) => void;
  height?: number;
}

/** What is brushed of the picture of a stream. */
type Brush = Omit<Selection, "stream">;

interface Cell {
  x: number;
  y: number;
}

const MOST_TOLD = 6; // marks of a column
const LEFT = 72;
const BELOW = 22;

/** How many rows took how long, over time. A part of it can be brushed, with the pointer or with the arrow keys. */
export function Heatmap({ data, format, marks, selection, onSelect, height = 260 }: Props) {
  const { t } = useLingui();
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(0);
  const [over, setOver] = useState<Cell>();
  const [from, setFrom] = useState<Cell>();
  const [to, setTo] = useState<Cell>();
  const [cursor, setCursor] = useState<Cell>();

  const used = useMemo(() => usedEdges(data), [data]);
  const grid = { columns: data.counts.length, rows: used.length };
  const begin = new Date(data.since).getTime();

  useEffect(() => onTheme(() => setTheme((before) => before + 1)), []);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const resized = new ResizeObserver(() => setWidth(box.clientWidth));
    resized.observe(box);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width) draw(canvas.current, width, height, data, used, format, marks);
  }, [data, used, width, height, format, marks, theme]);

  const wide = Math.max(1, (width - LEFT) / Math.max(1, grid.columns));
  const high = (height - BELOW) / Math.max(1, grid.rows);
  const cellAt = (event: PointerEvent): Cell => {
    const box = event.currentTarget.getBoundingClientRect();
    return clamped({
      x: Math.floor((event.clientX - box.left - LEFT) / wide),
      y: grid.rows - 1 - Math.floor((event.clientY - box.top) / high),
    });
  };
  const clamped = ({ x, y }: Cell): Cell => ({
    x: Math.min(Math.max(x, 0), grid.columns - 1),
    y: Math.min(Math.max(y, 0), grid.rows - 1),
  });
  const selected = (one: Cell, other: Cell): Brush => {
    const [x1, x2, y1, y2] = [Math.min(one.x, other.x), Math.max(one.x, other.x), Math.min(one.y, other.y), Math.max(one.y, other.y)];
    return {
      since: new Date(begin + x1 * data.step_s * 1000),
      until: new Date(begin + (x2 + 1) * data.step_s * 1000),
      least: data.edges[used[y1] ?? 0],
      most: data.edges[(used[y2] ?? 0) + 1],
    };
  };
  const release = () => {
    if (from && to) onSelect(selected(from, to));
    setFrom(undefined);
    setTo(undefined);
  };
  const press = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const move = moves[event.key];
    const at = cursor ?? { x: grid.columns - 1, y: grid.rows - 1 };
    if (move) {
      const faster = event.ctrlKey ? 10 : 1;
      const next = clamped({ x: at.x + move[0] * faster, y: at.y + move[1] * faster });
      setCursor(next);
      setFrom(event.shiftKey ? (from ?? at) : next);
      setTo(next);
      setOver(next);
    } else if (event.key === "Enter" && cursor) {
      onSelect(selected(from ?? cursor, cursor));
      setFrom(undefined);
      setTo(undefined);
    } else if (event.key === "Escape") {
      setFrom(undefined);
      setTo(undefined);
      onSelect(undefined);
    } else return;
    event.preventDefault();
  };

  const box = from && to ? rectangle(selected(from, to)) : selection ? rectangle(selection) : undefined;
  function rectangle(of: Brush) {
    const x = (time: Date) => LEFT + ((time.getTime() - begin) / 1000 / data.step_s) * wide;
    const low = of.least === undefined ? 0 : used.findIndex((edge) => (data.edges[edge + 1] ?? Infinity) > (of.least ?? 0));
    const top = of.most === undefined ? grid.rows : used.filter((edge) => (data.edges[edge] ?? 0) < (of.most ?? 0)).length;
    const [left, right] = [Math.max(LEFT, x(of.since)), Math.min(width, x(of.until))];
    const lowest = Math.max(0, low);
    return { left, width: Math.max(2, right - left), top: (grid.rows - top) * high, height: Math.max(2, (top - lowest) * high) };
  }
  const told = over && describe(over);
  function describe({ x, y }: Cell): string {
    const edge = used[y] ?? 0;
    const most = data.edges[edge + 1];
    const range = `${format(data.edges[edge] ?? 0)} – ${most === undefined ? "∞" : format(most)}`;
    const at = begin / 1000 + x * data.step_s;
    const marked = textsAt(marks, at + data.step_s / 2, data.step_s / 2);
    return [`${clock(new Date(at * 1000))}  ${range}  ${count(data.counts[x]?.[edge] ?? 0)}`, ...marked.slice(0, MOST_TOLD)].join("\n");
  }

  return (
    <>
      <div
        ref={place}
        className="heatmap"
        style={{ height }}
        tabIndex={0}
        role="application"
        aria-label={t`Heatmap: arrow keys move, with Shift they brush, Enter compares what is brushed, Escape ends it`}
        onKeyDown={press}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setFrom(cellAt(event));
          setTo(cellAt(event));
        }}
        onPointerMove={(event) => {
          setOver(cellAt(event));
          if (from) setTo(cellAt(event));
        }}
        onPointerUp={release}
        onPointerLeave={() => setOver(undefined)}
      >
        <canvas ref={canvas} aria-hidden="true" />
        {box && <div className="brush" style={box} />}
        <output className="heat-told" aria-live="polite">
          {told}
        </output>
      </div>
      <div className="legend">
        <MarkLegend marks={marks} />
      </div>
    </>
  );
}

/** The edges between the lowest and the highest that have rows, with one more at each end. */
function usedEdges(data: HeatmapData): number[] {
  const some = data.edges.map((_, edge) => data.counts.some((step) => (step[edge] ?? 0) > 0));
  const first = Math.max(0, some.indexOf(true) - 1);
  const last = Math.min(data.edges.length - 1, Math.max(some.lastIndexOf(true) + 1, first + 4));
  return data.edges.map((_, edge) => edge).slice(first, last + 1);
}

function draw(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  data: HeatmapData,
  used: number[],
  format: (value: number) => string,
  marks: Mark[],
): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const [wide, high] = [(width - LEFT) / Math.max(1, data.counts.length), (height - BELOW) / used.length];
  const most = Math.log1p(Math.max(1, ...data.counts.map((step) => Math.max(0, ...step))));
  context.fillStyle = colour("accent");
  data.counts.forEach((step, x) =>
    used.forEach((edge, y) => {
      const found = step[edge] ?? 0;
      if (!found) return;
      context.globalAlpha = 0.12 + 0.88 * (Math.log1p(found) / most);
      context.fillRect(LEFT + x * wide, height - BELOW - (y + 1) * high, Math.max(1, wide - 0.5), high - 0.5);
    }),
  );
  context.globalAlpha = 1;
  context.font = "11px system-ui";
  context.fillStyle = colour("soft");
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = Math.ceil(16 / high);
  used.forEach((edge, y) => {
    if (y % every === 0) context.fillText(format(data.edges[edge] ?? 0), LEFT - 8, height - BELOW - y * high - (y ? 0 : 4));
  });
  context.textAlign = "center";
  const begin = new Date(data.since).getTime();
  const length = data.counts.length * data.step_s * 1000;
  const ticks = Math.max(2, Math.floor((width - LEFT) / 110));
  for (let tick = 0; tick <= ticks; tick += 1) {
    const x = LEFT + ((width - LEFT) * tick) / ticks;
    context.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
    context.fillText(clock(new Date(begin + (length * tick) / ticks), length < 600_000), x, height - 8);
  }
  const x = (at: number) => LEFT + ((at * 1000 - begin) / 1000 / data.step_s) * wide;
  drawMarks(context, marks, { left: LEFT, top: 0, width: width - LEFT, height: height - BELOW, x });
}
