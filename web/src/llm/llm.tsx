import { msg } from "@lingui/core/macro";

import { SubjectScreen } from "../subject/screen";
import type { Subject } from "../subject/subject";
import { HttpRequests } from "./http";
import { Models } from "./models";
import { Requests } from "./requests";
import { TokenTime } from "./tokentime";
import { TokenTimeOver } from "./tokentimeover";

const LLM: Subject = {
  title: msg`LLM inference`,
  meaning: msg`requests, where the time of tokens goes, and HTTP around it`,
  probe: "llama",
  streams: ["llama_token", "llama_request", "ollama_request", "ollama_chunk"],
  lines: [
    [
      { show: "own", part: TokenTimeOver },
      { show: "own", part: TokenTime },
    ],
    [
      { show: "lines", title: msg`Tokens a second by program`, of: [{ stream: "llama_token", by: "comm,pid", cell: "count", where: "draft = 0" }], stacked: true },
      { show: "lines", title: msg`Time to first token, median`, of: [{ stream: "llama_request", by: "comm,pid", cell: "p50(ttft_ns)", where: "draft = 0" }] },
      { show: "lines", title: msg`HTTP requests a second by status`, of: [{ stream: "ollama_request", by: "status", cell: "count" }], stacked: true },
    ],
    [{ show: "slowest", title: msg`Slowest tokens`, of: [{ stream: "llama_token" }] }],
    [{ show: "own", part: Requests }],
    [{ show: "own", part: HttpRequests }],
    [
      { show: "slowest", title: msg`Slowest requests over HTTP`, of: [{ stream: "ollama_request" }] },
    ],
    [{ show: "own", part: Models }],
  ],
};

/** Inference: requests, where the time of tokens goes, the slowest ones with their causes, HTTP, models. */
export function Llm() {
  return <SubjectScreen of={LLM} />;
}
