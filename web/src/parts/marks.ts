import { msg } from "@lingui/core/macro";
import { useLingui } from "@lingui/react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import type { components } from "../api/schema";
import type { Loss } from "../api/answers";
import { api, data } from "../api/client";
import { colour } from "./colours";
import { visible } from "./format";
import { causeOf } from "./lossreasons";
import { useLosses } from "./losses";
import { useAddress } from "./search";
import { asked, isLive, readSelection } from "./times";

type Annotation = components["schemas"]["Annotation"];

/** A time on a chart at which rows are missing, at which no task recorded, about which somebody said something, or that is selected. */
export interface Mark {
  /** Seconds since 1970. */
  since: number;
  until: number;
  text: string;
  kind: "loss" | "off" | "note" | "selection";
}

const LEAST_PX = 2;
const HATCH_PX = 8; // between the lines of a time without a task
const OFF = msg`no task recorded this`;

/**
 * What is drawn on each chart: losses, of one stream or of all, annotations, and the selected part of the window; of one
 * machine, or those of the page.
 */
export function useMarks(stream?: string, machine?: string): Mark[] {
  const { i18n } = useLingui();
  const [search] = useAddress();
  const of = machine ?? search.machine;
  const { losses, unrecorded } = useLosses(stream, of);
  const { since, until, brushed } = search;
  const notes = useQuery({
    queryKey: ["annotations", of, since, until],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/annotations", { params: { query: { ...asked(search), machine: of } }, signal }))).annotations,
    refetchInterval: isLive(search) && 10_000,
    placeholderData: (before) => before,
  }).data;
  return useMemo(
    () => [
      ...selected(brushed),
      ...unrecorded.map((time) => ({ since: seconds(time.since), until: seconds(time.until), text: i18n._(OFF), kind: "off" as const })),
      ...losses.map((loss) => ofLoss(loss, causeOf(i18n, loss))),
      ...(notes ?? []).map(ofNote),
    ],
    [brushed, unrecorded, losses, notes, i18n],
  );
}

function seconds(time: string): number {
  return new Date(time).getTime() / 1000;
}

function ofLoss(loss: Loss, cause: string): Mark {
  const lost = loss.count === null ? "" : `${loss.count.toLocaleString("en")}: `;
  return {
    since: seconds(loss.since),
    until: loss.until ? seconds(loss.until) : Date.now() / 1000,
    text: visible(`⚠ ${lost}${cause} (${loss.hostname})`),
    kind: "loss",
  };
}

function ofNote(note: Annotation): Mark {
  const by = note.made_by ?? note.comm ?? "";
  const where = note.hostname ? `${by}, ${note.hostname}` : by;
  return { since: seconds(note.time), until: seconds(note.until ?? note.time), text: visible(`● ${note.text} (${where})`), kind: "note" };
}

function selected(brushed: string | undefined): Mark[] {
  const selection = readSelection(brushed);
  return selection ? [{ since: selection.since.getTime() / 1000, until: selection.until.getTime() / 1000, text: "", kind: "selection" }] : [];
}

/** The texts of the marks at a time, or less than `near` seconds from it. */
export function textsAt(marks: Mark[], at: number, near: number): string[] {
  return marks.filter((mark) => mark.text && mark.since - near <= at && at <= mark.until + near).map((mark) => mark.text);
}

interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
  x: (seconds: number) => number;
}

/** Bands with a foot where rows are missing; hatched ones where no task recorded; lines where a note begins, over a band as long as it lasts. */
export function drawMarks(context: CanvasRenderingContext2D, marks: Mark[], { left, top, width, height, x }: Place): void {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  const colours = { loss: colour("bad"), note: colour("c4"), selection: colour("accent") };
  for (const mark of marks) {
    const begin = x(mark.since);
    const long = Math.max(x(mark.until) - begin, LEAST_PX);
    if (mark.kind === "off") {
      hatch(context, begin, long, top, height);
      continue;
    }
    context.fillStyle = colours[mark.kind];
    context.globalAlpha = mark.kind === "selection" ? 0.2 : 0.1;
    context.fillRect(begin, top, long, height);
    if (mark.kind === "selection") continue;
    context.globalAlpha = 0.9;
    if (mark.kind === "loss") context.fillRect(begin, top + height - 4, long, 4);
    else context.fillRect(begin, top, LEAST_PX, height);
  }
  context.restore();
}

function hatch(context: CanvasRenderingContext2D, left: number, width: number, top: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = colour("soft");
  context.globalAlpha = 0.25;
  context.beginPath();
  for (let at = left - height; at < left + width; at += HATCH_PX) {
    context.moveTo(at, top + height);
    context.lineTo(at + height, top);
  }
  context.stroke();
  context.restore();
}
