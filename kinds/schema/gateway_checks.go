package schema

import (
	"fmt"
	"time"
)

// durationMember parses a member that is a duration of the Gateway API, such as "1m30s".
func durationMember(object map[string]any, name string) (time.Duration, string, bool) {
	text, _ := object[name].(string)
	d, err := time.ParseDuration(text)
	return d, text, err == nil
}

// timeouts demands that one try takes no longer than the whole request.
func timeouts(object, _ map[string]any) []Problem {
	request, most, limited := durationMember(object, "request")
	try, got, ok := durationMember(object, "backendRequest")
	if !limited || !ok || request == 0 || try <= request {
		return nil
	}
	return []Problem{{"backendRequest", "must be at most " + most + ", as the whole request, got " + got, ""}}
}

// maxMatches bounds the matches of a route, over all of its rules.
const maxMatches = 128

// matchCount reports a route with more than maxMatches matches. Rules without matches count as
// none.
func matchCount(object, _ map[string]any) []Problem {
	n := 0
	rules, _ := object["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		matches, _ := rule["matches"].([]any)
		n += len(matches)
	}
	if n <= maxMatches {
		return nil
	}
	return []Problem{{"rules", fmt.Sprintf("must have at most %d matches in all, has %d", maxMatches, n), ""}}
}

// budgetInterval bounds the interval of a retry budget, and rateInterval that of a minimum retry
// rate.
func budgetInterval(object, _ map[string]any) []Problem {
	return intervalWithin(object, time.Second, "must be between 1s and 1h, got ")
}

func rateInterval(object, _ map[string]any) []Problem {
	return intervalWithin(object, 1, "must be more than zero and at most 1h, got ")
}

func intervalWithin(object map[string]any, least time.Duration, reason string) []Problem {
	d, got, ok := durationMember(object, "interval")
	if !ok || d >= least && d <= time.Hour {
		return nil
	}
	return []Problem{{"interval", reason + got, ""}}
}
