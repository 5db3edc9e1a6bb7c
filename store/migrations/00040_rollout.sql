-- Which revision each proxy runs, as servers learn it from discoveries. Nothing of it is a revision, and nothing is written
-- while nothing changes: a report counts for as long as the session that keeps it holds an advisory lock.

-- +goose Up
CREATE TABLE mesh_internal.report_keepers (
  id     integer     PRIMARY KEY,
  pid    integer     NOT NULL,
  server text        NOT NULL,
  since  timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh_internal.report_keepers IS 'Internal. Read mesh.proxies.';
COMMENT ON COLUMN mesh_internal.report_keepers.id IS 'A random number, the key of its advisory lock.';
COMMENT ON COLUMN mesh_internal.report_keepers.pid IS 'The session that holds the lock for as long as the server lives. One that others hold says nothing.';

CREATE TABLE mesh_internal.reports (
  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  keeper    integer     NOT NULL REFERENCES mesh_internal.report_keepers ON DELETE CASCADE,
  discovery text        NOT NULL,
  since     timestamptz NOT NULL DEFAULT now(),
  number    bigint      NOT NULL DEFAULT 0,
  revision  bigint      NOT NULL DEFAULT 0,
  ended     timestamptz
) WITH (fillfactor = 10);

CREATE INDEX reports_of_keeper ON mesh_internal.reports (keeper);

COMMENT ON TABLE mesh_internal.reports IS 'Internal. Read mesh.proxies.';
COMMENT ON COLUMN mesh_internal.reports.number IS 'Of the last message that was taken.';
COMMENT ON COLUMN mesh_internal.reports.revision IS 'What every proxy runs that is in step: one row moves all of them.';

CREATE TABLE mesh_internal.reported_proxies (
  report          bigint      NOT NULL REFERENCES mesh_internal.reports ON DELETE CASCADE,
  stream          bigint      NOT NULL,
  node            text        NOT NULL,
  proxy           text        NOT NULL,
  namespace       text        NOT NULL,
  service_account text        NOT NULL,
  role            text        NOT NULL,
  labels          jsonb       NOT NULL DEFAULT '{}',
  locality        text        NOT NULL,
  network         text        NOT NULL,
  addresses       text[]      NOT NULL DEFAULT '{}',
  envoy           text        NOT NULL,
  agent           text        NOT NULL,
  protocol        text        NOT NULL,
  connected       timestamptz NOT NULL,
  state           text        NOT NULL CHECK (state IN ('synced', 'sending', 'refused', 'silent')),
  sent            bigint,
  runs            bigint,
  refused         integer     NOT NULL DEFAULT 0,
  changed         timestamptz NOT NULL DEFAULT now(),
  gone            timestamptz,
  PRIMARY KEY (report, stream),
  CHECK (gone IS NOT NULL OR (state = 'synced') = (runs IS NULL) AND (runs IS NULL) = (sent IS NULL))
) WITH (fillfactor = 50);

CREATE INDEX reported_proxies_by_name ON mesh_internal.reported_proxies (namespace, proxy);
CREATE INDEX reported_proxies_gone ON mesh_internal.reported_proxies (gone) WHERE gone IS NOT NULL;

COMMENT ON TABLE mesh_internal.reported_proxies IS 'Internal. Read mesh.proxies.';
COMMENT ON COLUMN mesh_internal.reported_proxies.runs IS 'NULL, like sent, while the proxy is in step: then it is the revision of the report.';
COMMENT ON COLUMN mesh_internal.reported_proxies.changed IS 'Since when it is in this state.';

-- +goose Down
DROP TABLE mesh_internal.reported_proxies;
DROP TABLE mesh_internal.reports;
DROP TABLE mesh_internal.report_keepers;
