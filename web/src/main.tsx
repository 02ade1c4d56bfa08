import { i18n } from "@lingui/core";
import { I18nProvider } from "@lingui/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { onSignedOut } from "./api/fetching";
import { ApiError } from "./api/problem";
import { setTheme, speak, theme } from "./frame/preferences";
import "./parts/theme.css";
import { makeRouter } from "./router";

const TRIES = 2;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      refetchOnWindowFocus: false,
      // What the server refuses stays refused, and what takes too long does again; what it did not answer may be answered now.
      retry: (failures, error) => failures < TRIES && (!(error instanceof ApiError) || error.mayPass),
    },
  },
});
const router = makeRouter(queries);

onSignedOut(() => {
  const { pathname, href } = router.state.location;
  if (pathname === "/sign-in") return;
  queries.clear();
  void router.navigate({ to: "/sign-in", search: { next: href } });
});

async function begin(): Promise<void> {
  setTheme(theme());
  // At once, not one after the other: who is signed in, the screen's code, and the texts.
  void router.load();
  for (const match of router.matchRoutes(router.latestLocation)) {
    const { routeId } = match as { routeId: keyof typeof router.routesById };
    void router.loadRouteChunk(router.routesById[routeId]);
  }
  await speak();
  createRoot(document.getElementById("root") as HTMLElement).render(
    <StrictMode>
      <I18nProvider i18n={i18n}>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </I18nProvider>
    </StrictMode>,
  );
}

void begin();
