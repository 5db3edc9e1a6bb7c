package problems

import (
	"fmt"
	"slices"
	"strings"
)

// threshold is the least severity that a command fails of. It is a pflag.Value.
type threshold string

// severities lists all severities, the mildest first.
var severities = []string{"info", severityWarning, severityError}

// reached reports whether a problem is severe enough. One of a severity that this program does not know is not.
func (t *threshold) reached(severity string) bool {
	return slices.Index(severities, severity) >= slices.Index(severities, string(*t))
}

// Set, String and Type implement pflag.Value.
func (t *threshold) Set(text string) error {
	severity := strings.ToLower(text) // istioctl writes them with a capital letter
	if !slices.Contains(severities, severity) {
		return fmt.Errorf("write %s", strings.Join(severities, ", "))
	}
	*t = threshold(severity)
	return nil
}

func (t *threshold) String() string { return string(*t) }

// Type is the type in the help.
func (t *threshold) Type() string { return "severity" }
