-- The MeshConfig and the MeshNetworks count in one namespace alone, and who is trusted is read without looking at resources.

-- +goose Up
-- Until now the oldest counted, wherever it was. What was in force stays in force, where it counts from now on: as a change like others, unless the
-- schema is between two versions, where nothing records changes and nobody serves them.
-- +goose StatementBegin
DO $$
DECLARE
  moved  record;
  barred boolean := EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'mesh.resources'::regclass AND tgname = 'refuse_between_versions');
BEGIN
  PERFORM set_config('mesh.message', 'The MeshConfig and the MeshNetworks count in the namespace istio-system alone', true);
  IF barred THEN
    ALTER TABLE mesh.resources DISABLE TRIGGER refuse_between_versions;
  END IF;
  FOR moved IN
    SELECT DISTINCT ON (r.kind) r.kind, r.namespace, r.name FROM mesh.resources r
    WHERE r.api_group = 'core'
      AND NOT EXISTS (SELECT FROM mesh.resources o WHERE o.api_group = 'core' AND o.kind = r.kind AND o.namespace = 'istio-system')
    ORDER BY r.kind, r.created_at, r.namespace, r.name
  LOOP
    UPDATE mesh.resources r SET namespace = 'istio-system' WHERE (r.api_group, r.kind, r.namespace, r.name) = ('core', moved.kind, moved.namespace, moved.name);
  END LOOP;
  IF barred THEN
    ALTER TABLE mesh.resources ENABLE TRIGGER refuse_between_versions;
  END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE mesh.trust_names (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  domains text[]  NOT NULL
);

COMMENT ON TABLE mesh.trust_names IS 'Internal. Call mesh.trust_domains().';
COMMENT ON COLUMN mesh.trust_names.domains IS 'The trust domain of the mesh, and then its aliases, as the MeshConfig had them when it was changed last.';

INSERT INTO mesh.trust_names (domains)
  SELECT ARRAY[coalesce(nullif(coalesce(c.spec ->> 'trustDomain', c.spec ->> 'trust_domain'), ''), 'cluster.local')]
    || ARRAY(SELECT a #>> '{}' FROM jsonb_path_query(coalesce(c.spec -> 'trustDomainAliases', c.spec -> 'trust_domain_aliases'), '$[*] ? (@.type() == "string")') a)
  FROM (SELECT 1) one LEFT JOIN LATERAL (
    SELECT r.spec FROM mesh.resources r WHERE r.api_group = 'core' AND r.kind = 'MeshConfig' AND r.namespace = 'istio-system' ORDER BY r.created_at, r.name LIMIT 1) c ON true;

-- +goose Down
DROP TABLE mesh.trust_names;
