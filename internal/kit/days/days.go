// Package days reads durations that may have days, such as 90d, which Go's own may not.
package days

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// day is 24 hours, whatever clocks are set to meanwhile.
const day = 24 * time.Hour

var withDays = regexp.MustCompile(`^([-+]?)([0-9]{1,9})d(.*)$`)

// Parse reads a duration as time.ParseDuration does, which may begin with days: 90d, 1d12h, -2d.
func Parse(text string) (time.Duration, error) {
	inHours := text
	if m := withDays.FindStringSubmatch(text); m != nil {
		days, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return 0, err
		}
		inHours = fmt.Sprintf("%s%dh%s", m[1], days*int64(day/time.Hour), m[3])
	}
	d, err := time.ParseDuration(inHours)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time with its unit, such as 30m, 12h or 90d", text)
	}
	return d, nil
}

// Flag is the value of a flag for a duration that may have days.
type Flag time.Duration

// Var declares such a flag.
func Var(f *pflag.FlagSet, into *time.Duration, name string, otherwise time.Duration, usage string) {
	*into = otherwise
	f.Var((*Flag)(into), name, usage)
}

// Set, String and Type implement the interface of a flag.
func (f *Flag) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*f = Flag(d)
	}
	return err
}

func (f *Flag) String() string {
	switch d := time.Duration(*f); {
	case d == 0:
		return "0" // by which the help knows that there is no default
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	default:
		return d.String()
	}
}

// Type is the flag's type in the help.
func (f *Flag) Type() string { return "duration" }
