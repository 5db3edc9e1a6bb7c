-- Weights may have any sum, because they share by proportion. Weights that look like a slip, 900
-- for 90, are worth a look.

CREATE OR REPLACE VIEW mesh_internal.uneven_weights AS
  SELECT 'info' AS severity, 'uneven-weights' AS code, r.kind, r.api_group, r.namespace, r.name, format('spec.%s[%s].route', p.protocol, route.i - 1) AS path,
    format('the weights add up to %s, so that %s is a share of %s %%', w.total, w.most, round(100 * w.most / w.total, 1)) AS message,
    'let them add up to 100, unless that is the share that is meant' AS hint
  FROM mesh_internal.every_resource r, (VALUES ('http'), ('tls'), ('tcp')) AS p (protocol),
    jsonb_path_query(r.spec -> p.protocol, '$[*]') WITH ORDINALITY AS route (v, i),
    LATERAL (SELECT sum(weight::numeric) AS total, max(weight::numeric) AS most, count(*) AS n
      FROM jsonb_path_query(route.v, '$.route[*].weight ? (@.type() == "number")') weight) w
  WHERE r.kind = 'VirtualService' AND r.spec @? '$.*.route[*].weight ? (@ > 100)' AND (r.own OR NOT mesh_internal.is_outranked(r.kind, r.api_group, r.namespace, r.name, r.registry))
    AND w.n > 1 AND w.most > 100 AND w.total::text !~ '^10+$'; -- a thousand is as good as a hundred

COMMENT ON VIEW mesh_internal.uneven_weights IS 'Internal. Read mesh.problems.';
