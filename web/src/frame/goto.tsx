import { useLingui } from "@lingui/react/macro";
import { lazy, Suspense, useEffect, useState } from "react";

const Places = lazy(() => import("./places"));

/** Ctrl-K: any screen, stream, machine, task, template or process by its name. */
export function GoTo() {
  const { t } = useLingui();
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setOpen((before) => !before);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return (
    <>
      <button type="button" className="goto-button" onClick={() => setOpen(true)}>
        {t`Go to`} <kbd>Ctrl K</kbd>
      </button>
      {open && (
        <Suspense fallback={null}>
          <Places close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
