import { Trans, useLingui } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";

import type { Task } from "../api/answers";
import { count } from "../parts/format";
import { causeOf, remedyOf } from "../parts/lossreasons";
import { rowsOf } from "./rowsof";

type Books = Task["streams"][number];

export function lostOf(books: Books): number {
  return books.lost.reduce((sum, loss) => sum + ("count" in loss ? (loss.count ?? 0) : 0), 0);
}

/** A stream's account, in words: what happened is stored, left out by the filter, lost or on its way. */
export function BooksInWords({ task, books }: { task: Task; books: Books }) {
  const { i18n } = useLingui();
  const lost = lostOf(books);
  return (
    <div className="books">
      <h3>
        <Link to="/explore/$stream" params={{ stream: books.stream }} search={rowsOf(task)}>
          {books.stream}
        </Link>
      </h3>
      <div className="books-bar" aria-hidden="true">
        <span className="books-stored" style={{ flexGrow: books.stored }} />
        <span className="books-out" style={{ flexGrow: books.left_out }} />
        <span className="books-way" style={{ flexGrow: Math.max(0, books.under_way) }} />
        <span className="books-lost" style={{ flexGrow: lost }} />
      </div>
      <p>
        <Trans>
          Of <b>{count(books.emitted)}</b> events that were recorded, <b>{count(books.stored)}</b> are stored,{" "}
          <b>{count(books.under_way)}</b> are on their way
        </Trans>{" "}
        {books.left_out > 0 && (
          <>
            <Trans>
              <b>{count(books.left_out)}</b> were left out by the filter
            </Trans>{" "}
          </>
        )}
        {lost === 0 ? (
          <span className="good">
            <Trans>and none is lost.</Trans>
          </span>
        ) : (
          <span className="bad">
            <Trans>and {count(lost)} are lost.</Trans>
          </span>
        )}
      </p>
      {books.lost.length > 0 && (
        <ul>
          {books.lost.map((loss) => (
            <li key={`${loss.place} ${loss.reason}`}>
              <Trans>
                {count(loss.count ?? 0)} lost: {causeOf(i18n, loss)}.
              </Trans>{" "}
              {remedyOf(i18n, loss)} <code className="soft">{`${loss.place}/${loss.reason}`}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
