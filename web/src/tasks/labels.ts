import type { Node } from "../api/answers";

export type Labels = Record<string, string>;

/** Labels as an address and `scope start` have them: `env=prod,zone=a`. No name or value has one of these signs. */
export function readLabels(text: string | undefined): Labels {
  const pairs = (text ?? "").split(",").map((pair) => pair.split("="));
  return Object.fromEntries(pairs.filter(([name, value]) => name && value) as [string, string][]);
}

export function writeLabels(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

/** The machines that have all these labels: members only, as the server chooses. */
export function having(nodes: Node[], labels: Labels): Node[] {
  return members(nodes).filter((node) => Object.entries(labels).every(([name, value]) => node.labels[name] === value));
}

/** All labels of machines, each once, by name and value. */
export function labelsOf(nodes: Node[]): [name: string, value: string][] {
  const found = new Set(members(nodes).flatMap((node) => Object.entries(node.labels).map(([name, value]) => `${name}=${value}`)));
  return [...found].sort().map((pair) => pair.split("=") as [string, string]);
}

function members(nodes: Node[]): Node[] {
  return nodes.filter((node) => node.membership === "joined" || node.membership === "unconfirmed");
}
