-- People: their accounts, logins and tokens, and what they did.
CREATE TABLE store.users (
    id       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    email    text NOT NULL UNIQUE CHECK (email = lower(email)),
    password text NOT NULL,
    role     text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    disabled timestamptz,
    created  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE store.users IS 'People who may log in.';
COMMENT ON COLUMN store.users.id IS 'identity of the account, in access tokens';
COMMENT ON COLUMN store.users.email IS 'name of the account, in lower case';
COMMENT ON COLUMN store.users.password IS 'argon2id hash of the password, with its parameters';
COMMENT ON COLUMN store.users.role IS 'viewer, operator or admin';
COMMENT ON COLUMN store.users.disabled IS 'since when the account may not log in; null: it may';
COMMENT ON COLUMN store.users.created IS 'when it was made';

CREATE TABLE store.logins (
    id       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id  uuid NOT NULL REFERENCES store.users ON DELETE CASCADE,
    address  text NOT NULL,
    program  text NOT NULL,
    began    timestamptz NOT NULL DEFAULT now(),
    used     timestamptz NOT NULL DEFAULT now(),
    expires  timestamptz NOT NULL,
    ended    timestamptz,
    reason   text
);
CREATE INDEX ON store.logins (user_id);
CREATE INDEX ON store.logins (expires);
COMMENT ON TABLE store.logins IS 'Logins: each has a family of refresh tokens, of which one is valid.';
COMMENT ON COLUMN store.logins.id IS 'identity of the login, in access tokens';
COMMENT ON COLUMN store.logins.user_id IS 'whose login it is';
COMMENT ON COLUMN store.logins.address IS 'from where it was made';
COMMENT ON COLUMN store.logins.program IS 'what the client called itself (User-Agent)';
COMMENT ON COLUMN store.logins.began IS 'when it was made';
COMMENT ON COLUMN store.logins.used IS 'when it was last refreshed';
COMMENT ON COLUMN store.logins.expires IS 'when its newest refresh token ends';
COMMENT ON COLUMN store.logins.ended IS 'since when its tokens are refused; null: they are valid';
COMMENT ON COLUMN store.logins.reason IS 'why it was ended: logout, reuse, revoked, password';

CREATE TABLE store.refresh_tokens (
    digest   bytea PRIMARY KEY,
    login    uuid NOT NULL REFERENCES store.logins ON DELETE CASCADE,
    spent    timestamptz
);
CREATE INDEX ON store.refresh_tokens (login);
COMMENT ON TABLE store.refresh_tokens IS 'Refresh tokens, each to be used once.';
COMMENT ON COLUMN store.refresh_tokens.digest IS 'SHA-256 of the token';
COMMENT ON COLUMN store.refresh_tokens.login IS 'the login that it continues';
COMMENT ON COLUMN store.refresh_tokens.spent IS 'when it was used; null: it is the valid one';

CREATE TABLE store.api_tokens (
    id       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    digest   bytea NOT NULL UNIQUE,
    user_id  uuid NOT NULL REFERENCES store.users ON DELETE CASCADE,
    name     text NOT NULL,
    role     text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created  timestamptz NOT NULL DEFAULT now(),
    expires  timestamptz NOT NULL,
    revoked  timestamptz,
    UNIQUE (user_id, name)
);
COMMENT ON TABLE store.api_tokens IS 'Tokens for scripts.';
COMMENT ON COLUMN store.api_tokens.id IS 'identity of the token';
COMMENT ON COLUMN store.api_tokens.digest IS 'SHA-256 of the token';
COMMENT ON COLUMN store.api_tokens.user_id IS 'whose token it is';
COMMENT ON COLUMN store.api_tokens.name IS 'what the owner calls it';
COMMENT ON COLUMN store.api_tokens.role IS 'what it may do, and never more than its owner';
COMMENT ON COLUMN store.api_tokens.created IS 'when it was made';
COMMENT ON COLUMN store.api_tokens.expires IS 'when it ends';
COMMENT ON COLUMN store.api_tokens.revoked IS 'since when it is refused; null: it is valid';

CREATE TABLE store.invitations (
    digest   bytea PRIMARY KEY,
    email    text NOT NULL,
    role     text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created  timestamptz NOT NULL DEFAULT now(),
    expires  timestamptz NOT NULL
);
COMMENT ON TABLE store.invitations IS 'Invitations to register; each goes with its use.';
COMMENT ON COLUMN store.invitations.digest IS 'SHA-256 of the invitation';
COMMENT ON COLUMN store.invitations.email IS 'who is invited, in lower case';
COMMENT ON COLUMN store.invitations.role IS 'role of the account that it makes';
COMMENT ON COLUMN store.invitations.created IS 'when it was made';
COMMENT ON COLUMN store.invitations.expires IS 'when it ends';

CREATE TABLE store.audit (
    number   bigint PRIMARY KEY,
    time     timestamptz NOT NULL,
    actor    text NOT NULL,
    address  text NOT NULL,
    act      text NOT NULL,
    object   text NOT NULL,
    detail   json NOT NULL,
    digest   bytea NOT NULL
);
CREATE INDEX ON store.audit (time);
COMMENT ON TABLE store.audit IS 'What people did. Each entry has the digest of all before it.';
COMMENT ON COLUMN store.audit.number IS 'from 1, without gaps';
COMMENT ON COLUMN store.audit.time IS 'when it was done';
COMMENT ON COLUMN store.audit.actor IS 'who did it';
COMMENT ON COLUMN store.audit.address IS 'from where';
COMMENT ON COLUMN store.audit.act IS 'what was done, such as task.start';
COMMENT ON COLUMN store.audit.object IS 'to what';
COMMENT ON COLUMN store.audit.detail IS 'what else there is to say, as it was written';
COMMENT ON COLUMN store.audit.digest IS 'SHA-256 of the digest before and of this entry';

CREATE TABLE store.audit_head (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    number bigint NOT NULL,
    digest bytea NOT NULL
);
INSERT INTO store.audit_head (number, digest) VALUES (0, '');
COMMENT ON TABLE store.audit_head IS 'The newest entry of the audit log, so that a removed one shows.';
COMMENT ON COLUMN store.audit_head.single IS 'true: the table has one row';
COMMENT ON COLUMN store.audit_head.number IS 'of the newest entry; 0: there is none';
COMMENT ON COLUMN store.audit_head.digest IS 'of the newest entry';
