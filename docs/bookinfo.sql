-- The bookinfo sample, on which the examples of docs/sql.md run: a product page that shows details and reviews of a book, and ratings
-- with them. The reviews have three versions. One transaction makes all of it: revision 1.
BEGIN;
SET LOCAL mesh.message = 'Set up bookinfo';

INSERT INTO mesh.service_entries (name, hosts, location, resolution, ports, endpoints) VALUES
  ('productpage', '{productpage.bookinfo}', 'MESH_INTERNAL', 'STATIC', '[{"number": 9080, "name": "http", "protocol": "HTTP"}]',
    '[{"address": "10.0.0.1", "labels": {"version": "v1"}}]'),
  ('details', '{details.bookinfo}', 'MESH_INTERNAL', 'STATIC', '[{"number": 9080, "name": "http", "protocol": "HTTP"}]',
    '[{"address": "10.0.0.2", "labels": {"version": "v1"}}]'),
  ('ratings', '{ratings.bookinfo}', 'MESH_INTERNAL', 'STATIC', '[{"number": 9080, "name": "http", "protocol": "HTTP"}]',
    '[{"address": "10.0.0.3", "labels": {"version": "v1"}}]'),
  ('reviews', '{reviews.bookinfo}', 'MESH_INTERNAL', 'STATIC', '[{"number": 9080, "name": "http", "protocol": "HTTP"}]',
    '[{"address": "10.0.1.1", "labels": {"version": "v1"}}, {"address": "10.0.1.2", "labels": {"version": "v2"}}, {"address": "10.0.1.3", "labels": {"version": "v3"}}]');

INSERT INTO mesh.destination_rules (name, host, subsets) VALUES
  ('reviews', 'reviews.bookinfo', '[{"name": "v1", "labels": {"version": "v1"}}, {"name": "v2", "labels": {"version": "v2"}}, {"name": "v3", "labels": {"version": "v3"}}]');

INSERT INTO mesh.virtual_services (name, hosts, http) VALUES
  ('reviews', '{reviews.bookinfo}', '[
    {"name": "testers", "match": [{"headers": {"end-user": {"exact": "jason"}}}],
      "route": [{"destination": {"host": "reviews.bookinfo", "subset": "v3"}}]},
    {"name": "everyone", "timeout": "2s",
      "route": [{"destination": {"host": "reviews.bookinfo", "subset": "v1"}, "weight": 100}, {"destination": {"host": "reviews.bookinfo", "subset": "v2"}, "weight": 0}]}]');

INSERT INTO mesh.gateways (name, selector, servers) VALUES
  ('bookinfo', '{"app": "ingress"}', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["bookinfo.example.com"]}]');

INSERT INTO mesh.virtual_services (name, hosts, gateways, http) VALUES
  ('bookinfo', '{bookinfo.example.com}', '{bookinfo}', '[{"route": [{"destination": {"host": "productpage.bookinfo"}}]}]');
COMMIT;
