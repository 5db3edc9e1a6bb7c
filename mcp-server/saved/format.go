// Package saved saves what a server serves to a file, for a server that starts while its source is
// away.
//
// The whole file is written next to the old one, and replaces it once it is on disk. Its last bytes
// are a checksum of all others, so a file that is damaged or cut off is not served.
package saved

import (
	"errors"
	"fmt"
)

const (
	// title begins the first line, and version ends it.
	title   = "pgmesh snapshot "
	version = "1"
)

// DamagedError says that a file is damaged, or was written by another version of the format.
type DamagedError struct{ Reason string }

func (e *DamagedError) Error() string { return e.Reason }

func damaged(format string, args ...any) error {
	return &DamagedError{fmt.Sprintf(format, args...)}
}

// ErrElsewhere says that the file was saved from a place that this server does not read from.
var ErrElsewhere = errors.New("what was saved was read from another place")
