import { Trans, useLingui } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";

import type { components } from "../api/schema";
import { colour, onTheme } from "../parts/colours";
import { cell, clock, duration, share } from "../parts/format";
import { MarkLegend } from "../parts/marklegend";
import { drawMarks, type Mark, textsAt } from "../parts/marks";
import { boxes, timesAt } from "./boxes";

type Timeline = components["schemas"]["WhyTimeline"];

const LANE = { height: 20, gap: 4 }; // pixels
const COLOURS = { cpu: "c1", queue: "c3", blocked: "c2" } as const; // as in why.css

/** When each thread was on a CPU, waited for one, or was blocked, as stacked lanes over time. */
export function Lanes({ timeline, marks }: { timeline: Timeline; marks: Mark[] }) {
  const { t } = useLingui();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [told, setTold] = useState("");
  const { lanes, step_ns } = timeline;
  const begin = new Date(timeline.since).getTime() / 1000;
  const length = new Date(timeline.until).getTime() / 1000 - begin;
  const height = lanes.length * (LANE.height + LANE.gap);
  const kinds = { cpu: t`on a CPU`, queue: t`waiting for a CPU`, blocked: t`blocked` };

  useEffect(() => {
    const on = canvas.current;
    if (!on) return;
    const draw = () => {
      const width = on.clientWidth;
      on.width = width * devicePixelRatio;
      on.height = height * devicePixelRatio;
      const context = on.getContext("2d");
      if (!context) return;
      context.scale(devicePixelRatio, devicePixelRatio);
      const fills = { cpu: colour(COLOURS.cpu), queue: colour(COLOURS.queue), blocked: colour(COLOURS.blocked) };
      for (const box of boxes(lanes, step_ns, width, LANE)) {
        context.fillStyle = fills[box.kind];
        context.fillRect(box.x, box.y, box.width, box.height);
      }
      drawMarks(context, marks, { left: 0, top: 0, width, height, x: (at) => ((at - begin) / length) * width });
    };
    draw();
    const resized = new ResizeObserver(draw);
    resized.observe(on);
    const unwatch = onTheme(draw);
    return () => {
      resized.disconnect();
      unwatch();
    };
  }, [lanes, step_ns, marks, begin, length, height]);

  const point = (x: number, y: number) => {
    const width = canvas.current?.clientWidth || 1;
    const lane = lanes[Math.floor(y / (LANE.height + LANE.gap))];
    if (!lane) return setTold("");
    const step = Math.min(lane.on_cpu_ns.length - 1, Math.floor((x / width) * lane.on_cpu_ns.length));
    const times = timesAt(lane, step);
    const parts = (["cpu", "queue", "blocked"] as const).filter((kind) => times[kind] > 0).map((kind) => `${kinds[kind]} ${share(times[kind] / step_ns)}`);
    const at = begin + (x / width) * length;
    setTold([`${cell(lane.name)} ${lane.tid}`, clock(new Date(at * 1000)), ...parts, ...textsAt(marks, at, length / width)].join(" · "));
  };

  return (
    <figure className="lanes" aria-label={t`When each of ${lanes.length} threads waited`}>
      <ul>
        {lanes.map((lane) => (
          <li key={lane.tid} className="clip" style={{ height: LANE.height, marginBottom: LANE.gap }}>
            {cell(lane.name)} <span className="soft">{lane.tid}</span>
          </li>
        ))}
      </ul>
      <canvas
        ref={canvas}
        style={{ height }}
        onPointerMove={(event) => point(event.nativeEvent.offsetX, event.nativeEvent.offsetY)}
        onPointerLeave={() => setTold("")}
      />
      <p className="lanes-times soft">
        <span>{clock(timeline.since)}</span>
        <span className="clip">{told}</span>
        <span>{clock(timeline.until)}</span>
      </p>
      <figcaption className="legend">
        {(["cpu", "queue", "blocked"] as const).map((kind) => (
          <span key={kind}>
            <i className={`split-${kind}`} />
            {kinds[kind]}
          </span>
        ))}
        <MarkLegend marks={marks} />
        <span>
          {timeline.interval_ns > 0 ? (
            <Trans>Recorded each {duration(timeline.interval_ns)}: within it, times are spread evenly.</Trans>
          ) : (
            <Trans>By each switch: exact.</Trans>
          )}
        </span>
        {timeline.lanes_hidden > 0 && (
          <span>
            <Trans>{timeline.lanes_hidden} more threads are hidden</Trans>
          </span>
        )}
      </figcaption>
    </figure>
  );
}
