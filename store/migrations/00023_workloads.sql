-- Which services of which machines are there, as discoveries tell of them, and the WorkloadEntries that they have.

-- +goose Up
-- Time as it counts for those who are gone: only while a server watches. What stands in it are milliseconds since the first watch.
CREATE TABLE mesh.workload_clock (
  one    boolean PRIMARY KEY DEFAULT true CHECK (one),
  uptime bigint  NOT NULL DEFAULT 0,
  beat   bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

INSERT INTO mesh.workload_clock DEFAULT VALUES;

COMMENT ON TABLE mesh.workload_clock IS 'Internal. Read mesh.registered_machines.';
COMMENT ON COLUMN mesh.workload_clock.beat IS 'How often it was moved on. Who moves it must have seen it as it stands.';

CREATE TABLE mesh.workload_sessions (
  id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  keeper    uuid        NOT NULL,
  server    text        NOT NULL,
  discovery text        NOT NULL,
  number    bigint      NOT NULL DEFAULT 0,
  refreshed bigint      NOT NULL,
  begun_at  timestamptz NOT NULL DEFAULT now(),
  ended     bigint,
  ended_at  timestamptz
) WITH (fillfactor = 25);

COMMENT ON TABLE mesh.workload_sessions IS 'Internal. Read mesh.registered_machines.';
COMMENT ON COLUMN mesh.workload_sessions.keeper IS 'The life of the server that has the stream.';
COMMENT ON COLUMN mesh.workload_sessions.number IS 'Of the last message that was taken. A server that knows of later ones has to do with a database that has lost them.';
COMMENT ON COLUMN mesh.workload_sessions.refreshed IS 'When the server had the stream last, and by ended since when there is none, by mesh.workload_clock.';

CREATE TABLE mesh.workload_instances (
  namespace       text        NOT NULL,
  workload_group  text        NOT NULL,
  machine         text        NOT NULL,
  since           bigint      NOT NULL,
  session         bigint      NOT NULL REFERENCES mesh.workload_sessions,
  service_account text        NOT NULL,
  enrolment       text        NOT NULL DEFAULT '',
  address         text        NOT NULL DEFAULT '',
  network         text        NOT NULL DEFAULT '',
  locality        text        NOT NULL DEFAULT '',
  labels          jsonb       NOT NULL DEFAULT '{}',
  ports           jsonb       NOT NULL DEFAULT '{}',
  service_labels  jsonb       NOT NULL DEFAULT '{}',
  weight          bigint      NOT NULL DEFAULT 0,
  health          text        NOT NULL DEFAULT 'unknown' CHECK (health IN ('healthy', 'unhealthy', 'unknown')),
  detail          text        NOT NULL DEFAULT '',
  has_left        boolean     NOT NULL DEFAULT false,
  gone            bigint,
  gone_at         timestamptz,
  slot            text,
  entry           text,
  refused         text,
  registered_at   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (namespace, workload_group, machine)
);

CREATE INDEX workload_instances_of_session ON mesh.workload_instances (session);
CREATE INDEX workload_instances_gone ON mesh.workload_instances (gone) WHERE gone IS NOT NULL;
CREATE INDEX workload_instances_by_slot ON mesh.workload_instances (namespace, slot);
CREATE UNIQUE INDEX workload_instances_by_entry ON mesh.workload_instances (namespace, entry) WHERE entry IS NOT NULL;

COMMENT ON TABLE mesh.workload_instances IS 'Internal. Read mesh.registered_machines.';
COMMENT ON COLUMN mesh.workload_instances.since IS 'When the machine began to register, by its own clock; what is said of a time before counts no more.';
COMMENT ON COLUMN mesh.workload_instances.session IS 'Who told of it last. It is gone, too, if that session has ended.';
COMMENT ON COLUMN mesh.workload_instances.has_left IS 'Whether it has said good-bye: it has no entry, and is kept for as long as what is late may come.';
COMMENT ON COLUMN mesh.workload_instances.slot IS 'The name of the WorkloadEntry that it wants, NULL where its group is not there; by entry the one that it has, and by refused why it has none.';

-- +goose Down
-- The entries stay: whoever migrates up again has them removed that belong to nobody.
DROP TABLE mesh.workload_instances;
DROP TABLE mesh.workload_sessions;
DROP TABLE mesh.workload_clock;
