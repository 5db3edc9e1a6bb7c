-- What operators set, for the whole mesh or for a namespace.

CREATE OR REPLACE VIEW mesh.known_settings (name, type, default_value, per_namespace, meaning, limits) AS
  VALUES
    ('strict_references', 'switch', 'off', true,
      'Refuse a transaction that leaves one of its resources with a new problem of severity error or warning, such as a route to a subset that no DestinationRule declares. Off, it is told as a warning.', false),
    ('encrypted_secrets', 'switch', 'off', false,
      'Refuse secrets whose private keys were not encrypted by mcp-server before they came to the database.', false),
    ('named_gateways', 'switch', 'on', true,
      'Refuse secrets with a private key that do not say which gateways they are for: their service accounts, or * for all of the namespace.', false),
    ('own_gateways', 'switch', NULL, false,
      'Have gateways serve the Gateways of their own namespace alone. Without a value it is so as soon as hosts have owners (mesh.grant_hosts).', true),
    ('history_max_age', 'interval', '90 days', false,
      'How long the history of a change is kept.', false),
    ('history_max_revisions', 'count', NULL, false,
      'How many revisions are kept in the history at most. Without a value, their age alone decides.', false),
    ('confirmation_max_age', 'interval', '7 days', false,
      'How long a change may wait to be confirmed at most. The history is not pruned of what waits.', false),
    ('certificates_max_age', 'interval', '90 days', false,
      'How long it is kept who was given a certificate, and who was refused one. Those in force are kept in any case.', false),
    ('certificates_max', 'count', '2000000', false,
      'About how many rows are kept at most of who was given a certificate. Of more, the oldest go that have ended, renewals first.', false),
    ('certificate_lifetime', 'interval', NULL, true,
      'For how long machines are given certificates, from a minute on, where discovery run --cert-lifetime does not say less. Without a value, that decides.', true),
    ('refusals_max', 'count', '10000', false,
      'How many rows of refused certificates are kept at most: of refusals that anybody can bring about, and as many of the others. Those of an hour that are alike are one row.', false),
    ('registered_machines_max', 'count', NULL, true,
      'How many services of machines may be registered in a namespace at most. Without a value, as many as there are.', true),
    ('resource_max_bytes', 'count', '1048576', true,
      'How large a resource may be at most, as JSON: its spec, labels and annotations.', true),
    ('namespace_max_resources', 'count', '5000', true,
      'How many resources a namespace may have at most. It holds for those who may not write to every namespace.', true),
    ('namespace_max_bytes', 'count', '67108864', true,
      'How large the resources of a namespace may be together, as proxies have them (mesh.written_out). It holds for those who may not write to every namespace.', true),
    ('namespace_max_daily_bytes', 'count', '1073741824', true,
      'How much the changes of a namespace may add to the history in a day, of UTC. It holds for those who may not write to every namespace.', true);

COMMENT ON VIEW mesh.known_settings IS 'What can be set in mesh.settings, and the default of each setting.';
COMMENT ON COLUMN mesh.known_settings.name IS 'The name of the setting.';
COMMENT ON COLUMN mesh.known_settings.type IS 'What a value looks like: switch (on or off), count or interval.';
COMMENT ON COLUMN mesh.known_settings.default_value IS 'The value where nothing is set; NULL for none.';
COMMENT ON COLUMN mesh.known_settings.per_namespace IS 'Whether a namespace can have a value of its own.';
COMMENT ON COLUMN mesh.known_settings.meaning IS 'What the setting does.';
COMMENT ON COLUMN mesh.known_settings.limits IS 'Whether the setting limits a namespace. Who may write only to that namespace cannot change it.';

-- setting returns the current value: that of the namespace, else that of the mesh, else the
-- default.
CREATE OR REPLACE FUNCTION mesh.setting(name text, namespace text DEFAULT '') RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found text;
BEGIN
  SELECT s.value INTO found FROM mesh.settings s
    WHERE s.name = setting.name AND s.namespace IN ('', setting.namespace) ORDER BY s.namespace DESC LIMIT 1;
  IF found IS NULL THEN
    found := (mesh_internal.known_setting(setting.name)).default_value;
  END IF;
  RETURN found;
END $$;

COMMENT ON FUNCTION mesh.setting IS 'Returns the current value of a setting, for a namespace or for the mesh.';

-- known_setting refuses names that no program reads.
CREATE OR REPLACE FUNCTION mesh_internal.known_setting(name text, OUT type text, OUT default_value text, OUT per_namespace boolean, OUT limits boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT k.type, k.default_value, k.per_namespace, k.limits INTO type, default_value, per_namespace, limits
    FROM mesh.known_settings k WHERE k.name = known_setting.name;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('unknown setting "%s"', name),
      HINT = mesh_internal.hint(name, ARRAY(SELECT k.name FROM mesh.known_settings k ORDER BY 1), 'known settings: ');
  END IF;
END $$;

-- setting_value returns a value in its usual form, or NULL if it does not fit the type.
CREATE OR REPLACE FUNCTION mesh_internal.setting_value(type text, value text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE type
    WHEN 'switch' THEN CASE WHEN value::boolean THEN 'on' ELSE 'off' END
    WHEN 'count' THEN CASE WHEN value::bigint > 0 THEN (value::bigint)::text END
    WHEN 'interval' THEN CASE WHEN value::interval > interval '0' THEN btrim(value) END END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_setting() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known record := mesh_internal.known_setting(NEW.name);
  value text := mesh_internal.setting_value(known.type, NEW.value);
BEGIN
  IF value IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = format('setting "%s": "%s" is not a value of it', NEW.name, NEW.value),
      HINT = CASE known.type
        WHEN 'switch' THEN 'write on or off'
        WHEN 'count' THEN 'write a whole number above 0; delete the row to have no limit'
        ELSE 'write an interval above 0, such as 90 days or 12 hours' END;
  ELSIF NEW.namespace <> '' AND NOT known.per_namespace THEN
    RAISE invalid_parameter_value USING MESSAGE = format('setting "%s" is one of the whole mesh and cannot be set for namespace "%s"', NEW.name, NEW.namespace),
      HINT = 'leave the namespace empty';
  ELSIF NEW.namespace <> '' AND (char_length(NEW.namespace) > 63 OR NEW.namespace !~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') THEN
    RAISE invalid_parameter_value USING MESSAGE = format('setting "%s": "%s" is not a valid namespace', NEW.name, NEW.namespace),
      HINT = 'at most 63 lower-case letters, digits and "-", the first and the last a letter or digit';
  ELSIF NEW.name = 'certificate_lifetime' AND value::interval < interval '1 minute' THEN
    RAISE invalid_parameter_value USING MESSAGE = format('setting "%s": "%s" is too short: machines renew at half of it, and go when a server is away for the rest', NEW.name, NEW.value),
      HINT = 'write a minute or more; an hour lets discovery be away for 24 minutes';
  END IF;
  IF known.limits THEN
    PERFORM mesh_internal.require_limits(NEW.name);
  END IF;
  NEW.value := value;
  NEW.author := mesh_internal.author();
  NEW.updated_at := now();
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_setting ON mesh.settings;
CREATE TRIGGER check_setting BEFORE INSERT OR UPDATE ON mesh.settings
  FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_setting();

-- keep_told copies the settings that servers need. Servers never read mesh.settings, because
-- tenants may lock it.
CREATE OR REPLACE FUNCTION mesh_internal.keep_told() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE mesh_internal.trust_names n SET lifetimes = now_set.lifetimes, own_gateways = now_set.own_gateways
    FROM (SELECT coalesce(jsonb_object_agg(s.namespace, ceil(extract(epoch FROM s.value::interval))) FILTER (WHERE s.name = 'certificate_lifetime'), '{}') AS lifetimes,
        coalesce(bool_or(s.value = 'on') FILTER (WHERE s.name = 'own_gateways'), EXISTS (SELECT FROM mesh_internal.host_owners)) AS own_gateways
      FROM mesh.settings s WHERE s.name IN ('certificate_lifetime', 'own_gateways')) now_set
    WHERE (n.lifetimes, n.own_gateways) <> (now_set.lifetimes, now_set.own_gateways);
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS keep_told ON mesh.settings;
CREATE TRIGGER keep_told AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.settings
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.keep_told();

DROP TRIGGER IF EXISTS keep_told ON mesh_internal.host_owners;
CREATE TRIGGER keep_told AFTER INSERT OR DELETE OR TRUNCATE ON mesh_internal.host_owners
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.keep_told();
