package schema

import (
	"fmt"
	"time"
)

// span reads a duration of the Gateway API, such as "1m30s".
func span(object map[string]any, name string) (time.Duration, string, bool) {
	text, _ := object[name].(string)
	d, err := time.ParseDuration(text)
	return d, text, err == nil
}

// timeouts: a try cannot take longer than the request that it is a try of.
func timeouts(object, _ map[string]any) []Problem {
	request, most, limited := span(object, "request")
	try, got, ok := span(object, "backendRequest")
	if !limited || !ok || request == 0 || try <= request {
		return nil
	}
	return []Problem{{"backendRequest", "must be at most " + most + ", as the whole request, got " + got, ""}}
}

// mostMatches is how many matches a route can have, however they are spread over its rules.
const mostMatches = 128

// matchCount: a rule of an HTTPRoute without matches has one, of every path.
func matchCount(object, _ map[string]any) []Problem {
	n := 0
	rules, _ := object["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		matches, _ := rule["matches"].([]any)
		n += len(matches)
	}
	if n <= mostMatches {
		return nil
	}
	return []Problem{{"rules", fmt.Sprintf("must have at most %d matches in all, has %d", mostMatches, n), ""}}
}

// budgetInterval and rateInterval keep the spans that retries are counted in.
func budgetInterval(object, _ map[string]any) []Problem {
	return intervalWithin(object, time.Second, "must be between 1s and 1h, got ")
}

func rateInterval(object, _ map[string]any) []Problem {
	return intervalWithin(object, 1, "must be more than zero and at most 1h, got ")
}

func intervalWithin(object map[string]any, least time.Duration, reason string) []Problem {
	d, got, ok := span(object, "interval")
	if !ok || d >= least && d <= time.Hour {
		return nil
	}
	return []Problem{{"interval", reason + got, ""}}
}
