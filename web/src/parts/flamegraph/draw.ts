import { shortName, visible } from "../format";
import type { Frames } from "./frames";

export const HIGH = 19; // of a frame, CSS pixels
const LEAST = 0.6; // narrower frames are not drawn, but counted

export interface View {
  /** The frame that fills the width. */
  zoom: number;
  top: number;
  width: number;
  height: number;
  found?: Uint8Array;
  over: number;
  at: number;
  dark: boolean;
}

/** How a frame of a kind is coloured: hue and its spread by name. */
const HUES: Record<string, [number, number]> = { kernel: [205, 25], python: [150, 30], user: [28, 32] };

/** Draws what is in sight; returns how many frames were too narrow. */
export function draw(context: CanvasRenderingContext2D, frames: Frames, view: View): number {
  const { zoom, width, height, top } = view;
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui";
  context.textBaseline = "middle";
  const from = frames.start[zoom] ?? 0;
  const whole = frames.value[zoom] || 1;
  const first = Math.floor(top / HIGH);
  const last = Math.ceil((top + height) / HIGH);
  const bottom = lastBelow(frames, zoom);
  let hidden = 0;
  for (const index of path(frames, zoom)) rectangle(context, frames, view, index, 0, width);
  for (let index = zoom; index < bottom; index += 1) {
    const wide = ((frames.value[index] ?? 0) / whole) * width;
    if (wide < LEAST) {
      hidden += 1;
      continue;
    }
    const level = frames.level[index] ?? 0;
    if (level < first || level > last) continue;
    rectangle(context, frames, view, index, (((frames.start[index] ?? 0) - from) / whole) * width, wide);
  }
  return hidden;
}

function rectangle(context: CanvasRenderingContext2D, frames: Frames, view: View, index: number, x: number, wide: number): void {
  const label = frames.label[index] ?? 0;
  const y = (frames.level[index] ?? 0) * HIGH - view.top;
  const faded = view.found && !view.found[label];
  context.globalAlpha = faded ? 0.28 : 1;
  context.fillStyle = frames.other.length ? differing(frames, index) : coloured(frames, label);
  context.fillRect(x, y, Math.max(wide - 0.6, 0.5), HIGH - 1);
  context.globalAlpha = 1;
  if (index === view.over || index === view.at) {
    context.strokeStyle = view.dark ? "#fff" : "#000";
    context.lineWidth = index === view.at ? 2 : 1;
    context.strokeRect(x + 0.5, y + 0.5, Math.max(wide - 1.6, 1), HIGH - 2);
  }
  if (wide < 22) return;
  context.fillStyle = faded ? (view.dark ? "#9aa6b4" : "#56616f") : "#10161d";
  context.fillText(fitting(context, visible(shortName(frames.labels[label] ?? "")), wide - 8), x + 4, y + HIGH / 2);
}

/** The end of a name says the most: of one that does not fit, the beginning is left out. */
function fitting(context: CanvasRenderingContext2D, text: string, wide: number): string {
  const letters = Math.floor(wide / 6.2);
  if (text.length <= letters || context.measureText(text).width <= wide) return text;
  return letters < 3 ? "" : `…${text.slice(text.length - letters + 1)}`;
}

function coloured(frames: Frames, label: number): string {
  const [hue, spread] = HUES[frames.kinds[label] ?? ""] ?? [265, 20];
  let hash = 7;
  for (const letter of (frames.labels[label] ?? "").slice(0, 24)) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  return `hsl(${hue + (Math.abs(hash) % spread)} 62% ${66 + (Math.abs(hash >> 8) % 10)}%)`;
}

/** Red: a larger share of the first side than of the second; blue: a smaller one. */
function differing(frames: Frames, index: number): string {
  const change = (frames.value[index] ?? 0) / (frames.value[0] || 1) - (frames.other[index] ?? 0) / (frames.other[0] || 1);
  const strength = Math.min(1, Math.abs(change) * 4);
  return `hsl(${change > 0 ? 8 : 212} ${Math.round(20 + 65 * strength)}% ${Math.round(84 - 26 * strength)}%)`;
}

export function path(frames: Frames, index: number): number[] {
  const found: number[] = [];
  for (let at = frames.parent[index] ?? -1; at >= 0; at = frames.parent[at] ?? -1) found.push(at);
  return found;
}

/** The frame after the last one below this one. */
export function lastBelow(frames: Frames, index: number): number {
  const level = frames.level[index] ?? 0;
  let at = index + 1;
  while (at < frames.count && (frames.level[at] ?? 0) > level) at += 1;
  return at;
}

/** The frame at a place of the canvas; -1: none. */
export function frameAt(frames: Frames, view: View, x: number, y: number): number {
  const level = Math.floor((y + view.top) / HIGH);
  const above = path(frames, view.zoom).find((index) => frames.level[index] === level);
  if (above !== undefined) return above;
  const at = (frames.start[view.zoom] ?? 0) + (x / view.width) * (frames.value[view.zoom] ?? 0);
  const bottom = lastBelow(frames, view.zoom);
  for (let index = view.zoom; index < bottom; index += 1) {
    const start = frames.start[index] ?? 0;
    if (frames.level[index] === level && start <= at && at < start + (frames.value[index] ?? 0)) return index;
  }
  return -1;
}
