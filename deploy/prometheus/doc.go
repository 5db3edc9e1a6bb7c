// Package prometheus has no code. Its tests read what is for Prometheus: where to scrape a mesh, and
// which alerts to raise.
package prometheus
