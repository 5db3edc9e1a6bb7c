// Package packages makes packages of the programs, by the script that make packages runs, for tests and benchmarks that install them.
package packages
