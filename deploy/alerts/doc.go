// Package alerts has no code. Its test reads the rules for Prometheus in pgmesh.yaml.
package alerts
