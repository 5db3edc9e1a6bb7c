// Package migrations has the steps by which the tables came to be as they are: a file each, with
// its way back.
package migrations

import (
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Files are the steps, as goose reads them.
//
//go:embed *.sql
var Files embed.FS

// Names lists the files in order.
func Names() ([]string, error) { return fs.Glob(Files, "*.sql") }

// Newest returns the number of the last step.
func Newest() (int64, error) {
	names, err := Names()
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(names[len(names)-1])
}
