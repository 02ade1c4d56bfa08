import type { Task } from "../api/answers";

type Of = Pick<Task, "task_id" | "wanted"> & { runs: Pick<Task["runs"][number], "started" | "ended">[] };

/** Where a task's rows of a stream are: all of them, whatever the bar chose before. */
export function rowsOf({ task_id, runs, wanted }: Of) {
  const begins = runs.flatMap((run) => run.started ?? []).sort();
  const ends = runs.flatMap((run) => run.ended ?? []).sort();
  return { task: task_id, since: begins[0], until: wanted ? undefined : ends.at(-1), where: undefined, machine: undefined, brushed: undefined };
}
