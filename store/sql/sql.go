// Package sql has the functions, views and triggers of the mesh, one file for each idea, in an
// order in which they can be installed. The schema mesh is for users, and mesh_internal for
// everything else.
//
// Unlike tables they have no migrations: a program that migrates replaces them all if they differ
// from its own. What is replaced keeps its grants and dependents. So a view may get new columns
// only at its end, and a function that goes, or changes its arguments, must be dropped by a
// migration.
package sql

import (
	"embed"
	"io/fs"
	"strings"
)

//go:generate go run ../internal/linkgen -o 69_references.sql
//go:embed *.sql
var files embed.FS

// Script returns all of it.
func Script() (string, error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		script.Write(text)
	}
	return script.String(), nil
}
