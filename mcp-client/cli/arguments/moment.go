package arguments

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/days"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
)

// Moment is a point in the history of a mesh: a revision or a time.
type Moment struct {
	Revision int64
	Time     time.Time // zero if the revision is set
}

// timeLayouts are the accepted formats. A time without a zone is local.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// How a moment is written, and a time.
const (
	MomentHelp = "a revision, " + TimeHelp
	TimeHelp   = "a time such as 2030-01-31T15:04:05Z or 2030-01-31, or how long ago, such as 90m or 7d"
)

// ParseMoment reads a moment as a user writes it.
func ParseMoment(text string) (Moment, error) {
	if revision, err := strconv.ParseInt(text, 10, 64); err == nil && revision >= 0 {
		return Moment{Revision: revision}, nil
	}
	at, err := ParseTime(text)
	if err != nil {
		return Moment{}, fmt.Errorf("%q is not %s", text, MomentHelp)
	}
	return Moment{Time: at}, nil
}

// ParseTime reads a time, or how long ago it was.
func ParseTime(text string) (time.Time, error) {
	if ago, err := days.Parse(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil { //nolint:gosmopolitan // as it is printed
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not "+TimeHelp, text)
}

// TimeFlag is a flag for a time.
type TimeFlag struct{ time.Time }

// Set, String and Type implement the interface of a flag.
func (f *TimeFlag) Set(text string) (err error) {
	f.Time, err = ParseTime(text)
	return err
}

func (f *TimeFlag) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339)
}

// Type is the flag's type in the help.
func (f *TimeFlag) Type() string { return "time" }

// Stamp returns the time for a request, nil if the flag was not set.
func (f *TimeFlag) Stamp() *timestamppb.Timestamp { return stamp.Of(f.Time) }
