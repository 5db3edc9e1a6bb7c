-- mcp-server dials sinks, and is told when they change (see mesh_internal.wake_servers). The table
-- is for owners; servers read it.

-- check_sink refuses addresses that could never be dialled.
CREATE OR REPLACE FUNCTION mesh_internal.check_sink() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong text;
BEGIN
  IF NEW.address !~ '^(\[[0-9A-Fa-f:.]+\]|[^]/:\s[]+):[0-9]{1,5}$' OR substring(NEW.address FROM '[0-9]+$')::int NOT BETWEEN 1 AND 65535 THEN
    RAISE invalid_parameter_value USING MESSAGE = format('sink "%s": the address cannot be dialled', NEW.address),
      HINT = 'write host:port, and an IPv6 address in brackets';
  ELSIF jsonb_typeof(NEW.metadata) <> 'object' THEN
    RAISE invalid_parameter_value USING MESSAGE = format('sink "%s": the metadata are no object', NEW.address),
      HINT = 'write {"name": "value"}';
  ELSIF NEW.server_id IS NOT NULL AND NEW.server_id !~ '^spiffe://[^/]+/.+' THEN
    RAISE invalid_parameter_value USING MESSAGE = format('sink "%s": server_id "%s" is no SPIFFE id', NEW.address, NEW.server_id),
      HINT = 'write spiffe://trust-domain/path';
  END IF;
  -- What gRPC sends as headers. The value is not repeated: it may be a secret.
  SELECT key INTO wrong FROM jsonb_each(NEW.metadata)
    WHERE key !~ '^[-0-9a-z_.]+$' OR key LIKE 'grpc-%' OR key LIKE '%-bin' OR jsonb_typeof(value) <> 'string' OR value #>> '{}' !~ '^[ -~]*$'
    ORDER BY key LIMIT 1;
  IF FOUND THEN
    RAISE invalid_parameter_value USING MESSAGE = format('sink "%s": metadata "%s" cannot be sent', NEW.address, wrong),
      HINT = 'names have lower-case letters, digits, "-", "_" and ".", and neither begin with grpc- nor end with -bin; values are strings of printable ASCII';
  END IF;
  NEW.author := mesh_internal.author();
  NEW.updated_at := now();
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_sink ON mesh.sinks;
CREATE TRIGGER check_sink BEFORE INSERT OR UPDATE ON mesh.sinks
  FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_sink();

DROP TRIGGER IF EXISTS wake_servers ON mesh.sinks;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.sinks
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();

-- take_sink reports whether this session dials a sink from now on, or already does. No other
-- session does while it lasts.
DROP FUNCTION IF EXISTS mesh_internal.take_sink(text);
CREATE OR REPLACE FUNCTION mesh_internal.take_sink(address text, server text DEFAULT '') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own timestamptz := (SELECT a.backend_start FROM pg_stat_get_activity(pg_backend_pid()) a);
BEGIN
  PERFORM mesh_internal.require_server('dial sinks');
  INSERT INTO mesh_internal.sink_holders AS h (address, pid, session, server) VALUES (address, pg_backend_pid(), coalesce(own, 'infinity'), server)
    ON CONFLICT ON CONSTRAINT sink_holders_pkey DO UPDATE SET pid = EXCLUDED.pid, session = EXCLUDED.session, server = EXCLUDED.server, taken_at = now()
    WHERE NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = h.pid AND coalesce(a.backend_start, h.session) = h.session AND a.pid <> pg_backend_pid());
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh_internal.take_sink IS 'Internal. A server asks by it whether it is the one to dial a sink.';

-- release_sink lets another server dial it, and tells the servers.
CREATE OR REPLACE FUNCTION mesh_internal.release_sink(address text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('dial sinks');
  DELETE FROM mesh_internal.sink_holders h WHERE h.address = release_sink.address AND h.pid = pg_backend_pid();
  PERFORM mesh_internal.notify('mesh_servers', 'sinks');
END $$;

COMMENT ON FUNCTION mesh_internal.release_sink IS 'Internal.';

-- tell_sink records the result of dialling a sink at a server, and deletes stale results.
CREATE OR REPLACE FUNCTION mesh_internal.tell_sink(address text, server text, connected boolean, since timestamptz, error text, let_go boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('dial sinks');
  INSERT INTO mesh_internal.sink_attempts AS a (address, server, connected, since, error, let_go_at)
  VALUES (address, server, connected, since, left(error, 1000), CASE WHEN let_go THEN now() END)
    ON CONFLICT ON CONSTRAINT sink_attempts_pkey DO UPDATE
    SET connected = EXCLUDED.connected, since = EXCLUDED.since, error = EXCLUDED.error, let_go_at = EXCLUDED.let_go_at, told_at = now();
  DELETE FROM mesh_internal.sink_attempts a
    WHERE NOT EXISTS (SELECT FROM mesh.sinks s WHERE s.address = a.address) OR a.let_go_at IS NOT NULL AND a.told_at < now() - interval '1 day';
END $$;

COMMENT ON FUNCTION mesh_internal.tell_sink IS 'Internal.';

CREATE OR REPLACE VIEW mesh.sink_status WITH (security_barrier) AS
  SELECT s.address, s.enabled, a.server, coalesce(h.server = a.server, false) AS dials, coalesce(a.connected AND h.server = a.server, false) AS connected,
    a.since, nullif(a.error, '') AS error, a.let_go_at
  FROM mesh.sinks s
    LEFT JOIN mesh_internal.sink_attempts a ON a.address = s.address
    LEFT JOIN mesh_internal.sink_holders h ON h.address = s.address
      -- A function, for a migration locks all views, which goes on to the views that they read.
      AND EXISTS (SELECT FROM pg_stat_get_activity(h.pid) p WHERE coalesce(p.backend_start, h.session) = h.session)
  WHERE (SELECT mesh_internal.speaks_for_others());

COMMENT ON VIEW mesh.sink_status IS 'What came of dialling the sinks: a row for each sink and server that has tried, and one without a server for a sink that none has tried. For owners and servers.';
COMMENT ON COLUMN mesh.sink_status.address IS 'The address of the sink, as host:port.';
COMMENT ON COLUMN mesh.sink_status.enabled IS 'Whether the sink is to be dialled.';
COMMENT ON COLUMN mesh.sink_status.server IS 'The server that dials the sink, or has tried; NULL if none has.';
COMMENT ON COLUMN mesh.sink_status.dials IS 'Whether this server dials the sink now.';
COMMENT ON COLUMN mesh.sink_status.connected IS 'Whether it has a stream to the sink.';
COMMENT ON COLUMN mesh.sink_status.since IS 'Since when it is connected, or not.';
COMMENT ON COLUMN mesh.sink_status.error IS 'Why the last attempt failed.';
COMMENT ON COLUMN mesh.sink_status.let_go_at IS 'When this server let go of the sink for another to try; NULL if it has not.';
