package gatewayapi_test

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"testing"

	"sigs.k8s.io/gateway-api/conformance/utils/suite"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/verdict"
)

// results are what became of the suite's tests.
var results = struct {
	mu       sync.Mutex
	outcomes map[string]verdict.Outcome
	report   string // the file of the report
	whole    bool   // all tests were run
	ended    bool   // the suite came to its end
}{outcomes: map[string]verdict.Outcome{}}

// record is told of each test when it has ended.
func record(t *testing.T, test suite.ConformanceTest, _ *suite.ConformanceTestSuite) {
	results.mu.Lock()
	defer results.mu.Unlock()
	outcome := verdict.Passed
	switch {
	case t.Failed():
		outcome = verdict.Failed
	case t.Skipped():
		outcome = verdict.Skipped
	}
	results.outcomes[test.ShortName] = outcome
	if outcome != verdict.Skipped {
		fmt.Fprintf(os.Stderr, "%s %s\n", outcome, test.ShortName)
	}
}

// judge tells what is otherwise than expected, and returns the code to exit with.
func judge() int {
	results.mu.Lock()
	defer results.mu.Unlock()
	reasons, err := verdict.Expected()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	surprises := verdict.Judge(results.outcomes, reasons, results.whole)
	report, err := os.ReadFile(results.report)
	if err == nil {
		err = verdict.Summarize(os.Stderr, report)
	}
	if err != nil {
		surprises = append(surprises, err.Error())
	}
	if !results.ended {
		surprises = append(surprises, "the suite did not come to its end")
	}
	for _, s := range surprises {
		fmt.Fprintln(os.Stderr, "conformance:", s)
	}
	return cmp.Compare(len(surprises), 0)
}
