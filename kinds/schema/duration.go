package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	secondsText  = regexp.MustCompile(`^[-+]?[0-9]+$`)
	durationText = regexp.MustCompile(`^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
)

const durationHint = `write it as "5s", "100ms" or "1h30m"; a plain integer is taken as seconds`

// duration reads the notations that users write and returns the one that protobuf's JSON takes.
func duration(f *Field, v any) (normal any, reason, hint string) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		whole, ok := wholeNumber(v.String())
		if !ok {
			return nil, wrongType(`a duration such as "5s"`, v), durationHint
		}
		text = whole
	default:
		return nil, wrongType(`a duration such as "5s"`, v), durationHint
	}
	d, ok := parseDuration(text)
	if !ok {
		return nil, fmt.Sprintf(`"%s" is not a duration`, text), durationHint
	}
	return protoDuration(d), durationReason(f, d, text), ""
}

// durationReason explains why a duration is too short, too long or not a multiple of the precision.
func durationReason(f *Field, d time.Duration, got string) string {
	low, _ := parseDuration(f.MinDuration)
	high, _ := parseDuration(f.MaxDuration)
	unit, _ := parseDuration(f.Precision)
	switch {
	case f.MinDuration != "" && d < low:
		return "must be at least " + f.MinDuration + ", got " + got
	case f.MaxDuration != "" && d > high:
		return "must be at most " + f.MaxDuration + ", got " + got
	case f.Precision != "" && d%unit != 0:
		return "must be a multiple of " + f.Precision + ", got " + got
	}
	return ""
}

func parseDuration(text string) (time.Duration, bool) {
	switch {
	case secondsText.MatchString(text):
		text += "s"
	case !durationText.MatchString(text):
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// protoDuration formats seconds with no, three, six or nine digits of fraction, as protobuf's JSON
// does: "90s", "0.100s".
func protoDuration(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign = "-"
	}
	// The smallest Duration has no negative, so take the absolute values of its parts.
	seconds, nanos := int64(d/time.Second), int64(d%time.Second)
	seconds, nanos = max(seconds, -seconds), max(nanos, -nanos)
	fraction := fmt.Sprintf(".%09d", nanos)
	for strings.HasSuffix(fraction, "000") {
		fraction = strings.TrimSuffix(fraction, "000")
	}
	if fraction == "." {
		fraction = ""
	}
	return sign + strconv.FormatInt(seconds, 10) + fraction + "s"
}
