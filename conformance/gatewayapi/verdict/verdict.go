// Package verdict holds what became of the suite's tests to what is expected of them.
package verdict

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Outcome is what became of a test.
type Outcome string

// The outcomes of tests.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

//go:embed expected.yaml
var expected []byte

// Expected returns the tests that are expected to fail, each with the reason.
func Expected() (map[string]string, error) {
	reasons := map[string]string{}
	if err := yaml.UnmarshalStrict(expected, &reasons); err != nil {
		return nil, fmt.Errorf("read the list of tests that are expected to fail: %w", err)
	}
	for test, reason := range reasons {
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("the list of tests that are expected to fail has no reason for %s", test)
		}
	}
	return reasons, nil
}

// Judge lists what is otherwise than expected: a test that fails and is not on the list, or one that
// is on it and passes, or that a whole run does not know.
func Judge(outcomes map[string]Outcome, reasons map[string]string, whole bool) (surprises []string) {
	for _, test := range slices.Sorted(maps.Keys(outcomes)) {
		_, listed := reasons[test]
		switch outcome := outcomes[test]; {
		case outcome == Failed && !listed:
			surprises = append(surprises, test+" failed")
		case outcome == Passed && listed:
			surprises = append(surprises, test+" passed: take it off the list of those that are expected to fail")
		}
	}
	if !whole {
		return surprises
	}
	for _, test := range slices.Sorted(maps.Keys(reasons)) {
		if _, ran := outcomes[test]; !ran {
			surprises = append(surprises, test+" is on the list of tests that are expected to fail, and there is no such test")
		}
	}
	return surprises
}
