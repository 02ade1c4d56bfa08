import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";

import { me } from "../api/session";

const PersonMenu = lazy(() => import("./personmenu"));

/** Who is signed in. The menu is loaded when it is wanted: the first view stays small. */
export function Person() {
  const { data } = useQuery(me);
  const [wanted, setWanted] = useState(false);
  const button = (
    <button type="button" className="clip person" aria-haspopup="menu" onClick={() => setWanted(true)}>
      {data?.name ?? "…"}
    </button>
  );
  return wanted ? (
    <Suspense fallback={button}>
      <PersonMenu />
    </Suspense>
  ) : (
    button
  );
}
