import type { components } from "./schema";

type Problem = components["schemas"]["Problem"];

/** A refusal of the API: its message says what is wrong and what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly faults: Problem["errors"] = [],
  ) {
    super(detail);
    this.name = "ApiError";
  }

  /** The server does not have this route: it is older than the console, or the part is not built yet. */
  get isMissing(): boolean {
    return this.status === 404 && this.message === "404: Not Found";
  }

  /** The same request may succeed in a moment; one whose query took too long (504) would only take as long again. */
  get mayPass(): boolean {
    return this.status === 0 || (this.status >= 500 && this.status !== 504);
  }

  /** What is wrong with a parameter or field; empty: nothing. */
  of(name: string): string {
    const fault = this.faults?.find((one) => one.parameter === name || one.pointer === `#/${name}`);
    return fault?.detail ?? "";
  }
}

/** The error of an answer that is not as hoped for. */
export async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const problem = (await answer.json()) as Problem;
    return new ApiError(answer.status, problem.detail, problem.errors ?? []);
  } catch {
    return new ApiError(answer.status, `${answer.status} ${answer.statusText}`);
  }
}
