// Package saved keeps what a server serves in a file, so that a server that starts while its source is away has something to
// serve.
//
// The file is written anew as a whole, beside the old one, and takes its place when it is on disk. Its last bytes are a checksum of
// all the others: a file that is damaged or cut off anywhere is not served.
package saved

import (
	"errors"
	"fmt"
)

const (
	// title begins the first line, and the version of the format ends it.
	title   = "pgmesh snapshot "
	version = "1"
)

// DamagedError says that a file cannot be what was written, or not by this version of the program.
type DamagedError struct{ Reason string }

func (e *DamagedError) Error() string { return e.Reason }

func damaged(format string, args ...any) error {
	return &DamagedError{fmt.Sprintf(format, args...)}
}

// ErrElsewhere says that what was saved is from other places than those that the server reads from.
var ErrElsewhere = errors.New("what was saved was read from another place")
