// Package orms is a test: the programs of docs/orms.md and the commands of docs/migrations.md do what
// the pages say. `make orms` brings what they are written for.
package orms
