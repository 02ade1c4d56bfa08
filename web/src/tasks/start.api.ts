import { api, data } from "../api/client";
import type { components } from "../api/schema";
import type { Definition } from "./command";

export type Group = components["schemas"]["StartedGroup"];

/** Starts one task, or a group of them: a template's, or on machines by their labels. Answers with what runs. */
export async function started({ node, labels, probe, template, target, options, where, duration }: Definition): Promise<{ task: string } | Group> {
  const watched = { target, duration };
  const part = { probe, options: options as components["schemas"]["Part"]["options"], where };
  if (!labels && !template) {
    const task = await data(api.POST("/api/v1/tasks", { body: { ...part, ...watched, node } }));
    return { task: task.task_id };
  }
  const what = template ? { template } : { parts: [part] };
  const on = labels ? { selector: labels } : { nodes: node ? [node] : null };
  return data(api.POST("/api/v1/groups", { body: { ...what, ...on, ...watched } }));
}
