import { useLingui } from "@lingui/react/macro";
import { type ReactNode, useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import "./chart.css";
import { colour, onTheme, series } from "./colours";
import { clock } from "./format";
import { MarkLegend } from "./marklegend";
import { drawMarks, type Mark, textsAt } from "./marks";

export interface Line {
  label: string;
  values: (number | null | undefined)[];
  /** Around its name in the legend: where it comes from. */
  link?: (label: string) => ReactNode;
}

interface Props {
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: Line[];
  format: (value: number) => string;
  marks?: Mark[];
  height?: number;
  /** Areas on top of each other, the first one lowest: their height is the sum. */
  stacked?: boolean;
  /** The window, also where it has no points. */
  since: number;
  until: number;
  /** Called with the seconds that were brushed. */
  onBrush?: (since: number, until: number) => void;
  label: string;
}

const NO_MARKS: Mark[] = [];
const TOLD = 12; // lines under the pointer
const POWERS = Array.from({ length: 70 }, (_, power) => 2 ** (power - 10)); // steps of an axis of bytes
const NEAR_PX = 4; // of a mark, at which its text is shown

/** Lines over time, with losses and annotations where they happened. */
export function Chart({ times, lines, format, marks = NO_MARKS, height = 180, stacked = false, since, until, onBrush, label }: Props) {
  const { t } = useLingui();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const drawn = [times, ...(stacked ? summed(lines) : lines.map((line) => line.values))] as uPlot.AlignedData;
  const given = useRef<Given>({ format, marks, onBrush, since, until, lines, drawn });
  given.current = { format, marks, onBrush, since, until, lines, drawn };
  const names = lines.map((line) => line.label).join("\n");
  const isBinary = format(1024).includes("Ki");

  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(names.split("\n"), box.clientWidth, height, stacked, isBinary, given), given.current.drawn, box);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: box.clientWidth, height }));
    resized.observe(box);
    const unwatch = onTheme(make);
    return () => {
      resized.disconnect();
      unwatch();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, height, stacked, isBinary]);

  useEffect(() => {
    plot.current?.setData(given.current.drawn);
  }, [times, lines, names, height, stacked, isBinary, marks, since, until]);

  const losses = marks.filter((mark) => mark.kind === "loss").length;
  return (
    <figure className="chart" aria-label={losses ? t`${label}; ${losses} losses are marked` : label}>
      <div ref={place} style={{ height }} />
      <figcaption className="legend">
        {lines.map((line, number) => (
          <span key={line.label} className="clip">
            <i style={{ background: `var(--${series(number)})` }} />
            {line.link ? line.link(line.label) : line.label}
          </span>
        ))}
        <MarkLegend marks={marks} />
      </figcaption>
    </figure>
  );
}

/** Whether minutes would not tell the marks of an axis apart. */
function isNear([first = 0, second = 60]: number[]): boolean {
  return second - first < 60;
}

interface Given {
  format: (value: number) => string;
  marks: Mark[];
  onBrush?: (since: number, until: number) => void;
  since: number;
  until: number;
  lines: Line[];
  /** What uPlot draws of the lines. */
  drawn: uPlot.AlignedData;
}

/** Each line with those before it; unknown where none of them is known. */
function summed(lines: Line[]): (number | null)[][] {
  const isKnown = (at: number) => lines.some(({ values }) => values[at] !== null && values[at] !== undefined);
  const sums: number[] = [];
  return lines.map(({ values }) => values.map((value, at) => (isKnown(at) ? (sums[at] = (sums[at] ?? 0) + (value ?? 0)) : null)));
}

function options(names: string[], width: number, height: number, stacked: boolean, isBinary: boolean, given: { current: Given }): uPlot.Options {
  const [soft, line] = [colour("soft"), colour("line")];
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: () => [given.current.since, given.current.until] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      { ...axis, values: (_, splits) => splits.map((at) => clock(new Date(at * 1000), isNear(splits))), size: 28 },
      { ...axis, values: (_, splits) => splits.map((value) => given.current.format(value)), size: 72, ...(isBinary && { incrs: POWERS }) },
    ],
    series: [
      {},
      ...names.map((label, number) => ({
        label,
        stroke: colour(series(number)),
        width: stacked ? 1 : 1.6,
        spanGaps: false,
        ...(stacked && { points: { show: (plot: uPlot) => plot.data[0].length === 1 } }),
        ...(stacked && number === 0 && { fill: filled(number) }),
      })),
    ],
    bands: stacked ? names.slice(1).map((_, number) => ({ series: [number + 2, number + 1] as [number, number], fill: filled(number + 1) })) : [],
    plugins: [tooltip(names, given)],
    hooks: {
      drawClear: [
        (plot) => drawMarks(plot.ctx, given.current.marks, { ...plot.bbox, x: (at) => plot.valToPos(at, "x", true) }),
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 3) given.current.onBrush?.(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** The colour of an area. */
function filled(number: number): string {
  return colour(series(number)).replace(/^rgb\((.*)\)$/, "rgba($1, 0.45)");
}

function tooltip(names: string[], given: { current: Given }): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "tooltip";
  box.hidden = true;
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        box.hidden = left < 0;
        if (box.hidden) return;
        const at = plot.data[0][idx ?? 0] ?? plot.posToVal(left, "x");
        const told = [clock(new Date(at * 1000))];
        names.forEach((name, number) => {
          const value = given.current.lines[number]?.values[idx ?? 0];
          if (value !== null && value !== undefined) told.push(`${name}  ${given.current.format(value)}`);
        });
        const under = plot.posToVal(left, "x");
        const near = plot.posToVal(left + NEAR_PX, "x") - under;
        told.push(...textsAt(given.current.marks, under, near));
        const hidden = told.length - TOLD;
        box.textContent = (hidden > 0 ? [...told.slice(0, TOLD - 1), `… +${hidden + 1}`] : told).join("\n");
        const flips = left > plot.over.clientWidth / 2;
        box.style.left = flips ? "" : `${left + 12}px`;
        box.style.right = flips ? `${plot.over.clientWidth - left + 12}px` : "";
      },
    },
  };
}
