package words

import (
	"fmt"
	"time"
)

// LocalTime formats a time for people, in local time.
func LocalTime(at time.Time) string { return at.Local().Format(time.DateTime) } //nolint:gosmopolitan // so it is meant

// Age formats the age of a resource, in a suitable unit.
func Age(created time.Time) string {
	if created.IsZero() {
		return "-"
	}
	return Span(time.Since(created))
}

// Span formats a duration in a suitable unit.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// ShortTime formats a time for a cell of a table.
func ShortTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}
