-- Refusals that are alike are counted in one row: anybody who reaches a server can bring about as many as they like.

-- +goose Up
ALTER TABLE mesh.certificates
  ADD COLUMN first_at  timestamptz,
  ADD COLUMN times     bigint  NOT NULL DEFAULT 1,
  ADD COLUMN alike     bytea,
  ADD COLUMN strangers boolean NOT NULL DEFAULT false;

CREATE UNIQUE INDEX certificates_refused_alike ON mesh.certificates (alike) WHERE alike IS NOT NULL;
CREATE INDEX certificates_refused ON mesh.certificates (strangers, at) WHERE alike IS NOT NULL;

COMMENT ON TABLE mesh.certificates IS 'Each certificate that was given to a machine or a server, and refusals, those of an hour that are alike in one row. Kept for as long as the setting certificates_max_age says; of refusals, the newest that the setting refusals_max allows.';

COMMENT ON COLUMN mesh.certificates.at IS 'When. Of refusals that are counted in one row, when the last was.';
COMMENT ON COLUMN mesh.certificates.first_at IS 'When the first of them was; NULL if there was one alone.';
COMMENT ON COLUMN mesh.certificates.times IS 'How many there were: of the same reason, from the same address or IPv6 network of 64 bits, in the same hour.';
COMMENT ON COLUMN mesh.certificates.alike IS 'Internal. A hash of what they have in common.';
COMMENT ON COLUMN mesh.certificates.strangers IS 'Internal. Whether it takes nothing of the mesh to be refused like this, so that such refusals push out none but each other.';

-- +goose Down
DROP INDEX mesh.certificates_refused, mesh.certificates_refused_alike;
ALTER TABLE mesh.certificates DROP COLUMN first_at, DROP COLUMN times, DROP COLUMN alike, DROP COLUMN strangers;
COMMENT ON TABLE mesh.certificates IS 'Each certificate that was given or refused to a machine or a server. Kept for as long as the setting certificates_max_age says.';
COMMENT ON COLUMN mesh.certificates.at IS NULL;
