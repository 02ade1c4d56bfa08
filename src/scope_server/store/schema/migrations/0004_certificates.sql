-- Certificates that the server's authority has signed, and tokens with which machines get their first one.
CREATE TABLE store.join_tokens (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    secret_digest bytea NOT NULL UNIQUE,
    made          timestamptz NOT NULL DEFAULT now(),
    expires       timestamptz NOT NULL,
    used          timestamptz,
    used_by       bytea
);
COMMENT ON TABLE store.join_tokens IS 'Tokens with which a machine gets its first certificate.';
COMMENT ON COLUMN store.join_tokens.id IS 'number of the token';
COMMENT ON COLUMN store.join_tokens.made IS 'when it was made';
COMMENT ON COLUMN store.join_tokens.secret_digest IS 'SHA-256 of the secret in the token';
COMMENT ON COLUMN store.join_tokens.expires IS 'when the token ends, used or not';
COMMENT ON COLUMN store.join_tokens.used IS 'when a machine first joined with it';
COMMENT ON COLUMN store.join_tokens.used_by IS 'SHA-256 of the public key that was signed';

CREATE TABLE store.certificates (
    serial     text PRIMARY KEY,
    kind       text NOT NULL,
    name       text NOT NULL,
    role       text,
    hostname   text,
    issued     timestamptz NOT NULL DEFAULT now(),
    expires    timestamptz NOT NULL,
    revoked    timestamptz
);
CREATE INDEX ON store.certificates (name);
COMMENT ON TABLE store.certificates IS 'Certificates of machines and persons.';
COMMENT ON COLUMN store.certificates.serial IS 'serial number, in hexadecimal digits';
COMMENT ON COLUMN store.certificates.kind IS 'machine or operator';
COMMENT ON COLUMN store.certificates.name IS 'machine id, or the person''s name';
COMMENT ON COLUMN store.certificates.role IS 'of a person: viewer or operator';
COMMENT ON COLUMN store.certificates.hostname IS 'of a machine, as it said';
COMMENT ON COLUMN store.certificates.issued IS 'when it was signed';
COMMENT ON COLUMN store.certificates.expires IS 'when it ends by itself';
COMMENT ON COLUMN store.certificates.revoked IS 'when it was revoked';
