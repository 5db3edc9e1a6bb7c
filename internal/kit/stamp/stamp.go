// Package stamp converts times to protobuf timestamps.
package stamp

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Of returns t as a timestamp, or nil for the zero time: in messages, nil means unknown.
func Of(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
