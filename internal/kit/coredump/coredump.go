// Package coredump keeps a program's memory, and the keys in it, out of core dumps and away from
// other processes of the same account.
package coredump

import "github.com/spf13/pflag"

// AllowFlag is the flag that skips Forbid, for debugging.
const AllowFlag = "allow-core-dumps"

// Flag declares the flag.
func Flag(flags *pflag.FlagSet) {
	flags.Bool(AllowFlag, false, "let the kernel write this program's memory to a file when it crashes, and debuggers of its account look into it: keys are there")
}

// ForbidUnlessAllowed calls Forbid unless AllowFlag is set.
func ForbidUnlessAllowed(flags *pflag.FlagSet) error {
	if allowed, _ := flags.GetBool(AllowFlag); allowed {
		return nil
	}
	return Forbid()
}
