import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { streams } from "./api/catalogue";
import { me } from "./api/session";
import { ApiError } from "./api/problem";
import { Broken } from "./frame/broken";
import { Frame } from "./frame/frame";
import { Missing } from "./frame/missing";
import { FLAMES, keeping, reads } from "./parts/search";
import { Loading } from "./parts/states";

interface Context {
  queries: QueryClient;
}

const root = createRootRouteWithContext<Context>()({
  validateSearch: reads().validateSearch,
  search: { middlewares: [keeping] },
  component: Outlet,
  errorComponent: Broken,
});

/** Screens for those who are signed in. */
const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Frame,
  beforeLoad: async ({ context, location }) => {
    void context.queries.prefetchQuery(streams); // beside `me`: all screens need them before they can ask for anything else
    try {
      await context.queries.ensureQueryData(me);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
      throw redirect({ to: "/sign-in", search: { next: location.href } });
    }
  },
});

const screens = [
  createRoute({ getParentRoute: () => inside, path: "/", ...reads(), component: lazyRouteComponent(() => import("./overview/overview"), "Overview") }),
  createRoute({ getParentRoute: () => inside, path: "/nodes", ...reads("find"), component: lazyRouteComponent(() => import("./nodes/nodes"), "Nodes") }),
  createRoute({ getParentRoute: () => inside, path: "/nodes/$node", ...reads("find", "closed"), component: lazyRouteComponent(() => import("./nodes/node"), "OneNode") }),
  createRoute({ getParentRoute: () => inside, path: "/processes", ...reads("find", "closed"), component: lazyRouteComponent(() => import("./processes/processes"), "Processes") }),
  createRoute({ getParentRoute: () => inside, path: "/start", ...reads("labels", "template", "probe", "only", "pid", "comm", "exe", "cgroup", "container", "options", "duration"), component: lazyRouteComponent(() => import("./tasks/start"), "Start") }),
  createRoute({ getParentRoute: () => inside, path: "/tasks", ...reads("view", "group"), component: lazyRouteComponent(() => import("./tasks/tasks"), "Tasks") }),
  createRoute({ getParentRoute: () => inside, path: "/tasks/$task", ...reads(), component: lazyRouteComponent(() => import("./tasks/task"), "OneTask") }),
  createRoute({ getParentRoute: () => inside, path: "/losses", ...reads(), component: lazyRouteComponent(() => import("./losses/losses"), "Losses") }),
  createRoute({ getParentRoute: () => inside, path: "/explore", ...reads("find"), component: lazyRouteComponent(() => import("./explore/streams"), "Streams") }),
  createRoute({ getParentRoute: () => inside, path: "/explore/$stream", ...reads("task", "view", "columns", "by", "column", "row", "paused", ...FLAMES), component: lazyRouteComponent(() => import("./explore/explore"), "Explore") }),
  createRoute({ getParentRoute: () => inside, path: "/why", ...reads("pid", "start", "request", "find", "row", ...FLAMES), component: lazyRouteComponent(() => import("./why/why"), "Why") }),
  createRoute({ getParentRoute: () => inside, path: "/flames", ...reads("task", "by", "against", ...FLAMES), component: lazyRouteComponent(() => import("./flames/flames"), "Flames") }),
  createRoute({ getParentRoute: () => inside, path: "/flames/$stream", ...reads("task", "by", "against", ...FLAMES), component: lazyRouteComponent(() => import("./flames/flames"), "Flames") }),
  createRoute({ getParentRoute: () => inside, path: "/llm", ...reads("row", ...FLAMES), component: lazyRouteComponent(() => import("./llm/llm"), "Llm") }),
  createRoute({ getParentRoute: () => inside, path: "/gpu", ...reads("row", ...FLAMES), component: lazyRouteComponent(() => import("./gpu/gpu"), "Gpu") }),
  createRoute({ getParentRoute: () => inside, path: "/python", ...reads("view", "row", ...FLAMES), component: lazyRouteComponent(() => import("./python/python"), "Python") }),
  createRoute({ getParentRoute: () => inside, path: "/syscalls", ...reads("view", "row", ...FLAMES), component: lazyRouteComponent(() => import("./syscalls/syscalls"), "Syscalls") }),
  createRoute({ getParentRoute: () => inside, path: "/scheduling", ...reads("view", "row", ...FLAMES), component: lazyRouteComponent(() => import("./scheduling/scheduling"), "Scheduling") }),
  createRoute({ getParentRoute: () => inside, path: "/traces", ...reads("with", "task", "machines"), component: lazyRouteComponent(() => import("./traces/traces"), "Traces") }),
  createRoute({ getParentRoute: () => inside, path: "/users", ...reads("view"), component: lazyRouteComponent(() => import("./users/users"), "Users") }),
  createRoute({ getParentRoute: () => inside, path: "$", ...reads(), component: Missing }),
];

const outside = [
  createRoute({ getParentRoute: () => root, path: "/sign-in", ...reads("next", "invitation"), component: lazyRouteComponent(() => import("./signin/signin"), "SignIn") }),
  createRoute({ getParentRoute: () => root, path: "/register", ...reads("invitation"), component: lazyRouteComponent(() => import("./signin/register"), "Register") }),
];

export function makeRouter(queries: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([...outside, inside.addChildren(screens)]),
    context: { queries },
    defaultPreload: "intent",
    defaultPendingComponent: () => <Loading height={400} />,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
