import { shortName, visible } from "../format";
import { type Frames, path, placeIn } from "./frames";

export const HIGH = 19; // of a frame, CSS pixels
const LEAST = 1; // narrower frames are not drawn, but counted
const LETTER = 6.2; // pixels, about
const WITH_TEXT = 22; // pixels

export interface View {
  /** The frame that fills the width. */
  zoom: number;
  top: number;
  width: number;
  height: number;
  found?: Uint8Array;
  dark: boolean;
}

/** What a label looks like: made once, since each is drawn many times. */
export class Look {
  private readonly colours: string[] = [];
  private readonly texts: string[] = [];
  private readonly widths: number[] = [];

  constructor(private readonly frames: Pick<Frames, "labels" | "kinds">) {}

  colour(label: number): string {
    return (this.colours[label] ??= coloured(this.frames.kinds[label] ?? "", this.frames.labels[label] ?? ""));
  }

  /** The end of a name says the most: of one that does not fit, the beginning is left out. */
  text(context: CanvasRenderingContext2D, label: number, wide: number): string {
    const text = (this.texts[label] ??= visible(shortName(this.frames.labels[label] ?? "")));
    const letters = Math.floor(wide / LETTER);
    if (text.length <= letters || (this.widths[label] ??= context.measureText(text).width) <= wide) return text;
    return letters < 3 ? "" : `…${text.slice(text.length - letters + 1)}`;
  }
}

/** How a frame of a kind is coloured: hue and its spread by name. */
const HUES: Record<string, [number, number]> = { kernel: [205, 25], python: [150, 30], user: [28, 32] };

function coloured(kind: string, name: string): string {
  const [hue, spread] = HUES[kind] ?? [265, 20];
  let hash = 7;
  for (const letter of name.slice(0, 24)) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  return `hsl(${hue + (Math.abs(hash) % spread)} 62% ${66 + (Math.abs(hash >> 8) % 10)}%)`;
}

/** Draws what is in sight. */
export function draw(context: CanvasRenderingContext2D, frames: Frames, look: Look, view: View): void {
  const { zoom, width, height, top } = view;
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui";
  context.textBaseline = "middle";
  for (const index of path(frames, zoom)) rectangle(context, frames, look, view, index, 0, width);
  const [from, whole] = [frames.start[zoom] ?? 0, frames.value[zoom] || 1];
  const [first, last] = [Math.floor(top / HIGH), Math.ceil((top + height) / HIGH)];
  const end = frames.end[zoom] ?? 0;
  for (let index = zoom; index < end;) {
    const level = frames.level[index] ?? 0;
    const wide = ((frames.value[index] ?? 0) / whole) * width;
    const isSeen = wide >= LEAST && level <= last;
    if (isSeen && level >= first) rectangle(context, frames, look, view, index, (((frames.start[index] ?? 0) - from) / whole) * width, wide);
    index = isSeen ? index + 1 : (frames.end[index] ?? end); // what a frame calls is not wider
  }
}

function rectangle(context: CanvasRenderingContext2D, frames: Frames, look: Look, view: View, index: number, x: number, wide: number): void {
  const label = frames.label[index] ?? 0;
  const y = (frames.level[index] ?? 0) * HIGH - view.top;
  const faded = view.found && !view.found[label];
  context.globalAlpha = faded ? 0.28 : 1;
  context.fillStyle = frames.other.length ? differing(frames, index) : look.colour(label);
  context.fillRect(x, y, Math.max(wide - 0.6, 0.5), HIGH - 1);
  context.globalAlpha = 1;
  if (wide < WITH_TEXT) return;
  context.fillStyle = faded ? (view.dark ? "#9aa6b4" : "#56616f") : "#10161d";
  context.fillText(look.text(context, label, wide - 8), x + 4, y + HIGH / 2);
}

/** Draws the borders of the frame under the pointer and of the one that the keyboard is at. */
export function outline(context: CanvasRenderingContext2D, frames: Frames, view: View, over: number, at: number): void {
  context.clearRect(0, 0, view.width, view.height);
  const [from, whole] = [frames.start[view.zoom] ?? 0, frames.value[view.zoom] || 1];
  for (const index of [over, at]) {
    if (index < 0) continue;
    const above = index <= view.zoom && view.zoom < (frames.end[index] ?? 0);
    const x = above ? 0 : (((frames.start[index] ?? 0) - from) / whole) * view.width;
    const wide = above ? view.width : ((frames.value[index] ?? 0) / whole) * view.width;
    context.strokeStyle = view.dark ? "#fff" : "#000";
    context.lineWidth = index === at ? 2 : 1;
    context.strokeRect(x + 0.5, (frames.level[index] ?? 0) * HIGH - view.top + 0.5, Math.max(wide - 1.6, 1), HIGH - 2);
  }
}

/** How many frames below the one that fills the width are too narrow to be drawn. */
export function tooNarrow(frames: Frames, zoom: number, width: number): number {
  const least = (LEAST * (frames.value[zoom] || 1)) / Math.max(width, 1);
  const end = frames.end[zoom] ?? 0;
  let narrow = 0;
  for (let index = zoom; index < end;) {
    const isNarrow = (frames.value[index] ?? 0) < least;
    const next = isNarrow ? (frames.end[index] ?? end) : index + 1;
    if (isNarrow) narrow += next - index;
    index = next;
  }
  return narrow;
}

/** Red: a larger share of the first side than of the second; blue: a smaller one. */
function differing(frames: Frames, index: number): string {
  const change = (frames.value[index] ?? 0) / (frames.value[0] || 1) - (frames.other[index] ?? 0) / (frames.other[0] || 1);
  const strength = Math.min(1, Math.abs(change) * 4);
  return `hsl(${change > 0 ? 8 : 212} ${Math.round(20 + 65 * strength)}% ${Math.round(84 - 26 * strength)}%)`;
}

/** The frame at a place of the canvas; -1: none. */
export function frameAt(frames: Frames, view: View, x: number, y: number): number {
  const level = Math.floor((y + view.top) / HIGH);
  const above = path(frames, view.zoom).find((index) => frames.level[index] === level);
  if (above !== undefined) return above;
  if (level < 0 || level >= frames.depth) return -1;
  const value = (frames.start[view.zoom] ?? 0) + (x / view.width) * (frames.value[view.zoom] ?? 0);
  let [low, high] = [placeIn(frames, level, view.zoom), placeIn(frames, level, frames.end[view.zoom] ?? 0)];
  while (low < high) {
    const middle = (low + high) >> 1;
    const index = frames.byLevel[middle] ?? 0;
    const start = frames.start[index] ?? 0;
    if (value < start) high = middle;
    else if (value >= start + (frames.value[index] ?? 0)) low = middle + 1;
    else return index;
  }
  return -1;
}
