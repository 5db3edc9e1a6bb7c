// Package stamp writes times as messages have them.
package stamp

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Of is nil for no time, as a message has what is not known.
func Of(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
