-- What resources name is read by functions that are made from the table of kinds/reference. These are no longer called.

-- +goose Up
DROP FUNCTION IF EXISTS mesh.links_of_attachments(text, text, jsonb, text), mesh.links_of_route(text, jsonb), mesh.links_of_credentials(text, jsonb),
  mesh.links_of_certificate_refs(text, jsonb), mesh.credential_link(text, text), mesh.full_name(text, text);

-- +goose Down
SELECT 1;
