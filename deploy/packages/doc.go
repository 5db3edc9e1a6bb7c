// Package packages builds packages of the programs with the script of make packages, for tests and
// benchmarks that install them.
package packages
