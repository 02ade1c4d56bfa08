import { Plural, Trans, useLingui } from "@lingui/react/macro";
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from "react";

import { onTheme } from "../colours";
import { count, quantity, share, visible } from "../format";
import { draw, frameAt, HIGH, Look, outline, tooNarrow, type View } from "./draw";
import "./flamegraph.css";
import { type Frames, sibling, weightOf } from "./frames";
import { frameIn, placeOf } from "./place";

interface Props {
  frames: Frames;
  find: string;
  /** The place of the frame that is zoomed to, see `placeOf`. */
  place: string | undefined;
  onZoom: (place: string | undefined) => void;
  /** Called with the function of a frame, for a sandwich of it. */
  onFunction?: (label: number) => void;
  height?: number;
}

/** A flame graph, root at the top: click zooms, Escape goes back; arrow keys walk, Enter zooms. */
export function FlameGraph({ frames, find, place, onZoom, onFunction, height = 420 }: Props) {
  const { t } = useLingui();
  const box = useRef<HTMLDivElement>(null);
  const picture = useRef<HTMLCanvasElement>(null);
  const marked = useRef<HTMLCanvasElement>(null); // over the picture, so that a pointer that moves draws only two borders
  const [width, setWidth] = useState(0);
  const [dark, setDark] = useState(isDark());
  const zoom = useMemo(() => frameIn(frames, place), [frames, place]);
  const setZoom = (index: number) => onZoom(index > 0 ? placeOf(frames, index) : undefined);
  const [top, setTop] = useState(0);
  const [over, setOver] = useState(-1);
  const [at, setAt] = useState(-1);

  useEffect(() => {
    setAt(-1);
    box.current?.scrollTo({ top: 0 });
  }, [frames]);
  useEffect(() => onTheme(() => setDark(isDark())), []);
  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const resized = new ResizeObserver(() => setWidth(here.clientWidth));
    resized.observe(here);
    return () => resized.disconnect();
  }, []);

  const found = useMemo(() => matching(frames, find), [frames, find]);
  const matched = useMemo(() => (found ? weightOf(frames, found) : 0), [frames, found]);
  const content = frames.depth * HIGH + 4;
  const tall = Math.min(height, Math.max(content, 80));
  const look = useMemo(() => new Look(frames), [frames]);
  const hidden = useMemo(() => tooNarrow(frames, zoom, width), [frames, zoom, width]);
  const view: View = useMemo(() => ({ zoom, top, width, height: tall, found, dark }), [zoom, top, width, tall, found, dark]);
  useEffect(() => onFrame(picture.current, view, (context) => draw(context, frames, look, view)), [frames, look, view]);
  useEffect(() => onFrame(marked.current, view, (context) => outline(context, frames, view, over, at)), [frames, view, over, at]);

  const under = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return frameAt(frames, view, event.clientX - box.left, event.clientY - box.top);
  };
  const zoomTo = (index: number) => {
    if (index < 0) return;
    setZoom(index);
    setAt(index);
  };
  const press = (event: KeyboardEvent) => {
    const here = at < 0 ? zoom : at;
    if (event.key === "ArrowDown") setAt(here + 1 < (frames.end[here] ?? 0) ? here + 1 : here);
    else if (event.key === "ArrowUp") setAt(Math.max(0, frames.parent[here] ?? 0));
    else if (event.key === "ArrowRight") setAt(sibling(frames, here, 1));
    else if (event.key === "ArrowLeft") setAt(sibling(frames, here, -1));
    else if (event.key === "Enter") zoomTo(here);
    else if (event.key === "Escape") setZoom(Math.max(0, frames.parent[zoom] ?? 0));
    else return;
    event.preventDefault();
  };
  const told = over >= 0 ? over : at;
  return (
    <div className="flames">
      <div className="flames-told" aria-live="polite">
        {told >= 0 ? <Told frames={frames} index={told} /> : <span className="soft">{t`Click a frame to zoom; Escape goes back`}</span>}
      </div>
      <div
        ref={box}
        className="flames-scroll"
        style={{ height: tall }}
        tabIndex={0}
        role="application"
        aria-label={t`Flame graph: arrow keys walk, Enter zooms, Escape goes back`}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={press}
      >
        <div className="flames-canvas" style={{ height: tall }}>
          <canvas ref={picture} aria-hidden="true" />
          <canvas
            ref={marked}
            aria-hidden="true"
            onPointerMove={(event) => setOver(under(event))}
            onPointerLeave={() => setOver(-1)}
            onClick={(event) => zoomTo(under(event as unknown as PointerEvent))}
            onDoubleClick={() => at >= 0 && onFunction?.(frames.label[at] ?? 0)}
          />
        </div>
        <div style={{ height: Math.max(0, content - tall) }} />
      </div>
      <div className="row soft flames-foot">
        {zoom > 0 && (
          <button type="button" onClick={() => setZoom(0)}>
            <Trans>Whole graph</Trans>
          </button>
        )}
        {found && <Trans>{share(matched / (frames.value[0] || 1))} in frames that match</Trans>}
        {hidden > 0 && <Plural value={hidden} one="# frame is too narrow to be drawn: zoom in" other="# frames are too narrow to be drawn: zoom in" />}
        {frames.cut > 0 && <Plural value={frames.cut} one="# small frame is not followed further" other="# small frames are not followed further" />}
        {at >= 0 && onFunction && (
          <button type="button" onClick={() => onFunction(frames.label[at] ?? 0)}>
            <Trans>Callers and callees of this function</Trans>
          </button>
        )}
      </div>
    </div>
  );
}

function Told({ frames, index }: { frames: Frames; index: number }) {
  const label = frames.label[index] ?? 0;
  const [value, self] = [frames.value[index] ?? 0, frames.self[index] ?? 0];
  const [whole, others] = [frames.value[0] || 1, frames.other[0] || 1];
  return (
    <>
      <b className="break">{visible(frames.labels[label] ?? "")}</b>{" "}
      <span className="soft">
        {frames.kinds[label]} · {frames.unit ? quantity(value, frames.unit) : count(value)} ({share(value / whole)}) · <Trans>self</Trans>{" "}
        {share(self / whole)}
        {frames.other.length > 0 && (
          <>
            {" "}
            · <Trans>outside</Trans> {share((frames.other[index] ?? 0) / others)}
          </>
        )}
      </span>
    </>
  );
}

function isDark(): boolean {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Which labels contain a text, or match a pattern between slashes. */
function matching(frames: Frames, find: string): Uint8Array | undefined {
  if (!find) return undefined;
  const pattern = /^\/(.+)\/$/.exec(find)?.[1];
  let test = (label: string) => label.toLowerCase().includes(find.toLowerCase());
  if (pattern) {
    try {
      const expression = new RegExp(pattern, "i");
      test = (label) => expression.test(label);
    } catch {
      return undefined;
    }
  }
  return Uint8Array.from(frames.labels, (label) => Number(test(label)));
}

/** Draws in the next frame of the screen; returns what takes that back. */
function onFrame(canvas: HTMLCanvasElement | null, { width, height }: View, act: (context: CanvasRenderingContext2D) => void) {
  const context = canvas?.getContext("2d");
  if (!canvas || !context || !width) return undefined;
  const frame = requestAnimationFrame(() => {
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.floor(width * ratio) || canvas.height !== Math.floor(height * ratio)) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    act(context);
  });
  return () => cancelAnimationFrame(frame);
}
