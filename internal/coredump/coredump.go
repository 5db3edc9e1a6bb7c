// Package coredump keeps what a program has in its memory, keys above all, out of core dumps and of the hands of other processes of its account.
package coredump

import "github.com/spf13/pflag"

// AllowFlag is the flag that leaves out Forbid, for whoever has to look into a program.
const AllowFlag = "allow-core-dumps"

// Flag declares the flag.
func Flag(flags *pflag.FlagSet) {
	flags.Bool(AllowFlag, false, "let the kernel write this program's memory to a file when it crashes, and debuggers of its account look into it: keys are there")
}

// ForbidUnlessAllowed does what the flag says.
func ForbidUnlessAllowed(flags *pflag.FlagSet) error {
	if allowed, _ := flags.GetBool(AllowFlag); allowed {
		return nil
	}
	return Forbid()
}
