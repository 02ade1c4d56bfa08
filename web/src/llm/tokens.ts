/** A filter for the tokens of these requests alone: others, of the same servers, would take their place among the groups. */
export function tokensOf(requests: { pid: number; request: number }[]): string {
  const pids = [...new Set(requests.map((one) => one.pid))];
  const numbers = (pid: number) => requests.filter((one) => one.pid === pid).map((one) => one.request);
  return pids.map((pid) => `pid = ${pid} and request in (${[...new Set(numbers(pid))].join(", ")})`).join(" or ");
}
