import { Annotations } from "./annotations";
import { Certificates } from "./certificates";
import { OwnTemplates } from "./owntemplates";
import { Quarantine } from "./quarantine";
import { ServerState } from "./serverstate";

/** What an admin looks after: the server's parts and limits, certificates, templates, annotations, refused batches. */
export function Settings() {
  return (
    <>
      <ServerState />
      <Certificates />
      <div className="cards">
        <OwnTemplates />
        <Annotations />
      </div>
      <Quarantine />
    </>
  );
}
