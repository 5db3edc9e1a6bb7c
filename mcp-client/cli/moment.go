package cli

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
)

// moment is a point in the history of a mesh: a revision or a time.
type moment struct {
	revision int64
	time     time.Time // zero if the revision is set
}

// timeLayouts are the accepted formats. A time without a zone is local.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

const momentHelp = "a revision, a time such as 2030-01-31T15:04:05Z or 2030-01-31, or how long ago, such as 90m"

func parseMoment(text string) (moment, error) {
	if revision, err := strconv.ParseInt(text, 10, 64); err == nil && revision >= 0 {
		return moment{revision: revision}, nil
	}
	at, err := parseTime(text)
	if err != nil {
		return moment{}, fmt.Errorf("%q is not %s", text, momentHelp)
	}
	return moment{time: at}, nil
}

func parseTime(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil { //nolint:gosmopolitan // as it is printed
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2030-01-31T15:04:05Z or 2030-01-31, or how long ago, such as 90m", text)
}

// timeFlag is a flag for a time.
type timeFlag struct{ time.Time }

// Set, String and Type implement the interface of a flag.
func (f *timeFlag) Set(text string) (err error) {
	f.Time, err = parseTime(text)
	return err
}

func (f *timeFlag) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339)
}

// Type is the flag's type in the help.
func (f *timeFlag) Type() string { return "time" }

// stamp returns the time for a request, nil if the flag was not set.
func (f *timeFlag) stamp() *timestamppb.Timestamp { return stamp.Of(f.Time) }

// localTime formats a time for people, in local time.
func localTime(at time.Time) string { return at.Local().Format(time.DateTime) } //nolint:gosmopolitan // so it is meant
