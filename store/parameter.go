package store

import (
	"fmt"
	"strings"
	"time"
)

// Storable turns any text into one that Postgres accepts.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// NullTime returns a time as a parameter; NULL for the zero time.
func NullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Milliseconds formats a duration for a Postgres setting.
func Milliseconds(d time.Duration) string { return fmt.Sprintf("'%dms'", d.Milliseconds()) }
