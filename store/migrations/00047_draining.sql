-- Services of machines that are about to leave.

-- +goose Up
ALTER TABLE mesh_internal.workload_instances DROP CONSTRAINT workload_instances_health_check;
ALTER TABLE mesh_internal.workload_instances ADD CONSTRAINT workload_instances_health_check CHECK (health IN ('healthy', 'unhealthy', 'unknown', 'draining'));

-- +goose Down
UPDATE mesh_internal.workload_instances SET health = 'unknown' WHERE health = 'draining';
ALTER TABLE mesh_internal.workload_instances DROP CONSTRAINT workload_instances_health_check;
ALTER TABLE mesh_internal.workload_instances ADD CONSTRAINT workload_instances_health_check CHECK (health IN ('healthy', 'unhealthy', 'unknown'));
