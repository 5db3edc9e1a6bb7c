-- Who belongs to the mesh: authorities, join tokens, certificates that were given, and what is trusted.

-- +goose Up
CREATE TABLE mesh.authority_keys (
  id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  state        text        NOT NULL CHECK (state IN ('next', 'active', 'previous', 'retired')),
  fingerprint  text        NOT NULL UNIQUE,
  chain        text        NOT NULL,
  sealed_key   text        NOT NULL CHECK ((sealed_key = '') = (state = 'retired')),
  not_before   timestamptz NOT NULL,
  not_after    timestamptz NOT NULL,
  created_by   text        NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  activated_by text,
  activated_at timestamptz,
  replaced_at  timestamptz,
  retired_by   text,
  retired_at   timestamptz
);

CREATE UNIQUE INDEX active_authority ON mesh.authority_keys (state) WHERE state = 'active';
CREATE UNIQUE INDEX next_authority ON mesh.authority_keys (state) WHERE state = 'next';

COMMENT ON TABLE mesh.authority_keys IS 'Internal. Read mesh.authorities.';

COMMENT ON COLUMN mesh.authority_keys.sealed_key IS 'The private key as mcp-server has encrypted it. Empty once the authority is retired.';

CREATE TABLE mesh.join_token_hashes (
  id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name            text        NOT NULL,
  current         boolean     NOT NULL DEFAULT true,
  hash            bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  namespace       text        NOT NULL DEFAULT '',
  service_account text,
  workload_group  text,
  program         text,
  max_uses        int         NOT NULL CHECK (max_uses > 0),
  uses            int         NOT NULL DEFAULT 0 CHECK (uses <= max_uses),
  created_by      text        NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz NOT NULL,
  revoked_by      text,
  revoked_at      timestamptz,
  used_at         timestamptz,
  CHECK (num_nonnulls(service_account, workload_group, program) = 1),
  CHECK ((namespace = '') = (program IS NOT NULL))
);

CREATE UNIQUE INDEX current_join_tokens ON mesh.join_token_hashes (name) WHERE current;

COMMENT ON TABLE mesh.join_token_hashes IS 'Internal. Read mesh.join_tokens.';

COMMENT ON COLUMN mesh.join_token_hashes.current IS 'Whether it is the one that its name means: not so once another has taken over the name of one that was spent.';

CREATE TABLE mesh.join_redemptions (
  token_id        bigint      NOT NULL REFERENCES mesh.join_token_hashes ON DELETE CASCADE,
  key_hash        bytea       NOT NULL CHECK (octet_length(key_hash) = 32),
  enrolment       text        NOT NULL UNIQUE,
  service_account text,
  peer            text        NOT NULL,
  server          text        NOT NULL,
  at              timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (token_id, key_hash)
);

COMMENT ON TABLE mesh.join_redemptions IS 'Internal. Which keys have used which join tokens: the same key may again, for its first answer may have been lost.';

CREATE TABLE mesh.certificates (
  id          uuid        PRIMARY KEY,
  at          timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  server      text        NOT NULL,
  refusal     text,
  detail      text        NOT NULL DEFAULT '',
  identity    text        NOT NULL DEFAULT '',
  namespace   text        NOT NULL GENERATED ALWAYS AS (coalesce(substring(identity FROM '^spiffe://[^/]+/ns/([^/]+)/sa/[^/]+$'), '')) STORED,
  enrolment   text        NOT NULL DEFAULT '',
  serial      text        NOT NULL DEFAULT '',
  not_after   timestamptz,
  authority   text        NOT NULL DEFAULT '',
  credential  text        NOT NULL DEFAULT '',
  peer        text        NOT NULL DEFAULT '',
  key_hash    bytea,
  took        interval
);

CREATE INDEX certificates_by_time ON mesh.certificates (at);
CREATE INDEX certificates_by_identity ON mesh.certificates (identity, at) WHERE identity <> '';
CREATE INDEX certificates_by_enrolment ON mesh.certificates (enrolment, at) WHERE enrolment <> '';
CREATE INDEX certificates_in_force ON mesh.certificates (not_after) WHERE refusal IS NULL;

ALTER TABLE mesh.certificates ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE mesh.certificates IS 'Each certificate that was given or refused to a machine or a server. Kept for as long as the setting certificates_max_age says.';

COMMENT ON COLUMN mesh.certificates.server IS 'Who gave or refused it.';
COMMENT ON COLUMN mesh.certificates.refusal IS 'Why none was given, such as token_used; NULL if one was.';
COMMENT ON COLUMN mesh.certificates.detail IS 'The same in words.';
COMMENT ON COLUMN mesh.certificates.identity IS 'The SPIFFE id; of a refusal, as far as it is known.';
COMMENT ON COLUMN mesh.certificates.namespace IS 'That of the identity; empty for servers, and where none is known. Who may read it sees the row.';
COMMENT ON COLUMN mesh.certificates.enrolment IS 'The machine, from when it joined on, whatever it has renewed since.';
COMMENT ON COLUMN mesh.certificates.authority IS 'The fingerprint of the root in mesh.authorities that the certificate leads to; empty where it is not known or not one of them.';
COMMENT ON COLUMN mesh.certificates.credential IS 'What was shown for it: token, certificate or jwt.';
COMMENT ON COLUMN mesh.certificates.key_hash IS 'The SHA-256 of the public key.';

CREATE TABLE mesh.revocations (
  id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace  text        NOT NULL,
  identity   text,
  enrolment  text,
  reason     text        NOT NULL DEFAULT '',
  revoked_by text        NOT NULL,
  revoked_at timestamptz NOT NULL DEFAULT now(),
  lifted_by  text,
  lifted_at  timestamptz,
  CHECK (num_nonnulls(identity, enrolment) = 1)
);

CREATE UNIQUE INDEX revoked_identities ON mesh.revocations (identity) WHERE lifted_at IS NULL;
CREATE UNIQUE INDEX revoked_enrolments ON mesh.revocations (enrolment) WHERE lifted_at IS NULL;

ALTER TABLE mesh.revocations ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE mesh.revocations IS 'Of whom nothing counts any more, and of whom it counts again. Written by mesh.revoke_identity, mesh.revoke_machine, mesh.revoke_server and the functions that restore.';

COMMENT ON COLUMN mesh.revocations.identity IS 'ns/NAMESPACE/sa/SERVICE-ACCOUNT, all machines of that name; or pgmesh/PROGRAM/NAME, a server.';
COMMENT ON COLUMN mesh.revocations.enrolment IS 'One machine, as mesh.machines has it.';
COMMENT ON COLUMN mesh.revocations.lifted_at IS 'Since when it does not count any more.';

CREATE TABLE mesh.federated_trust (
  trust_domain text        PRIMARY KEY,
  roots        text        NOT NULL,
  not_after    timestamptz NOT NULL,
  author       text        NOT NULL DEFAULT '',
  updated_at   timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.federated_trust IS 'Other meshes whose members are known here, each by its own trust domain.';

COMMENT ON COLUMN mesh.federated_trust.roots IS 'The certificates of their authorities, as PEM.';
COMMENT ON COLUMN mesh.federated_trust.not_after IS 'When the last of them ends. Set by itself, like the columns after it.';

CREATE TABLE mesh.join_issuers (
  name            text        PRIMARY KEY,
  issuer          text        NOT NULL,
  audiences       text[]      NOT NULL,
  jwks            jsonb,
  jwks_uri        text,
  claims          jsonb       NOT NULL DEFAULT '{}',
  namespace       text        NOT NULL,
  service_account text        NOT NULL DEFAULT 'default',
  workload_group  text        NOT NULL DEFAULT '',
  author          text        NOT NULL DEFAULT '',
  updated_at      timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.join_issuers IS 'Whose JSON web tokens machines may join with, and as whom. Of the rows that fit a token the first counts, in the order of names.';

COMMENT ON COLUMN mesh.join_issuers.issuer IS 'What the token says of who made it (iss).';
COMMENT ON COLUMN mesh.join_issuers.audiences IS 'One of these has to be among those that the token is for (aud).';
COMMENT ON COLUMN mesh.join_issuers.jwks IS 'The public keys of the issuer, as a JWKS document; or jwks_uri says where they are fetched, or else the issuer, as OpenID has it.';
COMMENT ON COLUMN mesh.join_issuers.claims IS 'What the token has to say: an object of paths with dots and the value of each. A list has to have it among others.';
COMMENT ON COLUMN mesh.join_issuers.namespace IS 'With service_account, who the bearer becomes.';

-- +goose Down
DROP TABLE mesh.join_issuers;
DROP TABLE mesh.federated_trust;
DROP TABLE mesh.revocations;
DROP TABLE mesh.certificates;
DROP TABLE mesh.join_redemptions;
DROP TABLE mesh.join_token_hashes;
DROP TABLE mesh.authority_keys;
