-- What was committed, for people to read.

-- is_of_machine reports whether a resource is the entry of a machine, by its annotations.
CREATE OR REPLACE FUNCTION mesh_internal.is_of_machine(kind text, annotations jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT kind = 'WorkloadEntry' AND coalesce(annotations ? 'mesh.pgmesh.io/machine', false)
$$;

-- recorded_changes has everything known of each change that the acting role may see, including
-- those of the running transaction, without a revision.
CREATE OR REPLACE VIEW mesh_internal.recorded_changes WITH (security_barrier) AS
  SELECT t.revision, t.time, t.author, t.application, t.message,
    c.api_group, c.kind, c.namespace, c.name,
    c.before_spec, c.before_labels, c.before_annotations,
    c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at,
    c.after_spec, c.after_labels, c.after_annotations
  FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id
  WHERE (SELECT mesh_internal.sees_all()) OR c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]);

COMMENT ON VIEW mesh_internal.recorded_changes IS 'Internal. Read mesh.history.';

CREATE OR REPLACE VIEW mesh.revisions WITH (security_barrier) AS
  SELECT revision, author, application, message, time, size,
    size > 0 AND NOT secrets AND NOT EXISTS (
      SELECT FROM mesh_internal.changes c WHERE c.transaction_id = t.id
        AND NOT (mesh_internal.is_of_machine(c.kind, c.before_annotations) OR mesh_internal.is_of_machine(c.kind, c.after_annotations))) AS by_machines
  FROM mesh_internal.transactions t
  WHERE revision > (SELECT pruned_through FROM mesh_internal.installation) AND ((SELECT mesh_internal.sees_all()) OR EXISTS (
    SELECT FROM mesh_internal.changes c WHERE c.transaction_id = t.id AND c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]))
    OR t.secrets AND EXISTS (
    SELECT FROM mesh_internal.secret_changes c WHERE c.transaction_id = t.id AND c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[])));

COMMENT ON VIEW mesh.revisions IS 'A row for each transaction that changed resources, in the order of their commits.';
COMMENT ON COLUMN mesh.revisions.revision IS 'The number of the revision. Numbers are in the order of commits, without gaps.';
COMMENT ON COLUMN mesh.revisions.author IS 'Who made the change: the role that connected, or whom a server named in mesh.author.';
COMMENT ON COLUMN mesh.revisions.application IS 'The application_name of the session.';
COMMENT ON COLUMN mesh.revisions.message IS 'What the session set in mesh.message.';
COMMENT ON COLUMN mesh.revisions.time IS 'When the transaction was numbered, just before its commit was visible.';
COMMENT ON COLUMN mesh.revisions.size IS 'How many resources and secrets the revision changed.';
COMMENT ON COLUMN mesh.revisions.by_machines IS 'Whether it changed nothing but WorkloadEntries of registered machines: they came, went, or were found healthy or not.';

-- as_document returns a resource as the history shows it; NULL if there was none.
CREATE OR REPLACE FUNCTION mesh_internal.as_document(labels jsonb, annotations jsonb, spec jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN spec IS NOT NULL THEN jsonb_build_object('labels', labels, 'annotations', annotations, 'spec', spec) END
$$;

-- secret_as_document returns a secret in that form: of its values only what tells them apart.
CREATE OR REPLACE FUNCTION mesh_internal.secret_as_document(note jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN note IS NOT NULL THEN jsonb_build_object('labels', note -> 'labels', 'annotations', '{}'::jsonb, 'spec', note - 'labels') END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.operation(before_spec jsonb, after_spec jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN before_spec IS NULL THEN 'create' WHEN after_spec IS NULL THEN 'delete' ELSE 'update' END
$$;

CREATE OR REPLACE VIEW mesh.history WITH (security_barrier) AS
  SELECT revision, time, author, application, message, api_group, kind, namespace, name,
    mesh_internal.operation(before_spec, after_spec) AS operation,
    mesh_internal.as_document(before_labels, before_annotations, before_spec) AS before,
    mesh_internal.as_document(after_labels, after_annotations, after_spec) AS after,
    CASE WHEN kind = 'WorkloadEntry' THEN coalesce(after_annotations ->> 'mesh.pgmesh.io/machine', before_annotations ->> 'mesh.pgmesh.io/machine') END AS machine
  FROM mesh_internal.recorded_changes
  WHERE revision IS NOT NULL
  UNION ALL
  SELECT t.revision, t.time, t.author, t.application, t.message, 'core', 'Secret', c.namespace, c.name,
    mesh_internal.operation(c.before, c.after), mesh_internal.secret_as_document(c.before), mesh_internal.secret_as_document(c.after), NULL
  FROM mesh_internal.transactions t JOIN mesh_internal.secret_changes c ON c.transaction_id = t.id
  WHERE t.revision IS NOT NULL AND ((SELECT mesh_internal.sees_all()) OR c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

COMMENT ON VIEW mesh.history IS 'Each resource that a revision changed, before and after, and each secret, without its values. Old revisions are pruned.';
COMMENT ON COLUMN mesh.history.revision IS 'The revision that made the change.';
COMMENT ON COLUMN mesh.history.time IS 'When that revision was committed.';
COMMENT ON COLUMN mesh.history.author IS 'Who made the change.';
COMMENT ON COLUMN mesh.history.application IS 'The application_name of the session.';
COMMENT ON COLUMN mesh.history.message IS 'What the session set in mesh.message.';
COMMENT ON COLUMN mesh.history.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.history.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.history.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.history.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.history.operation IS 'create, update or delete.';
COMMENT ON COLUMN mesh.history.before IS 'The labels, annotations and spec before the revision, as one object; NULL if the revision created the resource.';
COMMENT ON COLUMN mesh.history.after IS 'The labels, annotations and spec after the revision, as one object; NULL if the revision deleted the resource.';
COMMENT ON COLUMN mesh.history.machine IS 'The registered machine whose WorkloadEntry it is; NULL for what people write.';
