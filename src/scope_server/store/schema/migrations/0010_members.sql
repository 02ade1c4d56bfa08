-- Machines are known by their keys. A token may be for several machines, and gives them labels.
ALTER TABLE store.join_tokens
    DROP COLUMN used_by, DROP COLUMN used,
    ADD COLUMN uses integer NOT NULL DEFAULT 1,
    ADD COLUMN used integer NOT NULL DEFAULT 0,
    ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN store.join_tokens.uses IS 'how many machines may join with it';
COMMENT ON COLUMN store.join_tokens.used IS 'how many machines have joined with it';
COMMENT ON COLUMN store.join_tokens.labels IS 'labels of the machines that join with it';

CREATE TABLE store.members (
    key_digest  bytea PRIMARY KEY,
    machine_id  text NOT NULL,
    hostname    text NOT NULL,
    token       bigint,
    joined      timestamptz NOT NULL DEFAULT now(),
    certificate bytea,
    expires     timestamptz NOT NULL,
    confirmed   boolean NOT NULL,
    ended       timestamptz,
    ending      text CHECK (ending IN ('removed', 'revoked')),
    CHECK ((ended IS NULL) = (ending IS NULL))
);
CREATE INDEX ON store.members (machine_id);
COMMENT ON TABLE store.members IS 'Keys of the machines that joined: a copy of a machine has a key and an id of its own.';
COMMENT ON COLUMN store.members.key_digest IS 'SHA-256 of the machine''s public key';
COMMENT ON COLUMN store.members.machine_id IS 'id of the machine';
COMMENT ON COLUMN store.members.hostname IS 'host name, as the machine said when it joined';
COMMENT ON COLUMN store.members.token IS 'id of the token with which it joined';
COMMENT ON COLUMN store.members.joined IS 'when it joined';
COMMENT ON COLUMN store.members.certificate IS 'its newest certificate, X.509 in DER';
COMMENT ON COLUMN store.members.expires IS 'when its newest certificate ends';
COMMENT ON COLUMN store.members.confirmed IS
    'false: the machine has a certificate, but the database, restored from an older copy, did not know that it had joined';
COMMENT ON COLUMN store.members.ended IS 'when it was removed or revoked';
COMMENT ON COLUMN store.members.ending IS 'removed: it may join again; or revoked: it may not';

CREATE TABLE store.labels (
    machine_id text NOT NULL,
    name       text NOT NULL,
    value      text NOT NULL,
    PRIMARY KEY (machine_id, name)
);
COMMENT ON TABLE store.labels IS 'Labels of machines.';
COMMENT ON COLUMN store.labels.machine_id IS 'id of the machine';
COMMENT ON COLUMN store.labels.name IS 'name of the label, such as role';
COMMENT ON COLUMN store.labels.value IS 'value of the label, such as gpu';
