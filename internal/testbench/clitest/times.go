package clitest

import "regexp"

var clock = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

// WithoutClocks hides times as people are shown them.
func WithoutClocks(text string) string { return clock.ReplaceAllString(text, "<time>") }

var times = regexp.MustCompile(`(?m)^\s*"?(creationTimestamp|resourceVersion).*\n|,\s*"(creationTimestamp|resourceVersion)": "[^"]*"`)

// WithoutTimes removes the creation times of resources, and the revisions that they are of.
func WithoutTimes(text string) string { return times.ReplaceAllString(text, "") }

var statuses = regexp.MustCompile(`(?m)^status:\n(  .*\n)*`)

// WithoutStatuses removes the statuses of resources that were printed as YAML.
func WithoutStatuses(text string) string { return statuses.ReplaceAllString(text, "") }
