package change

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// DryRunFlag declares --dry-run, which may have the values that kubectl has for it, too.
func DryRunFlag(flags *pflag.FlagSet, dryRun *bool, usage string) {
	flags.Var((*dryRunValue)(dryRun), "dry-run", usage+"; client and server are the same, and none is false")
	flags.Lookup("dry-run").NoOptDefVal = "true"
}

// dryRunValue is what --dry-run says. Nothing is checked without the server, so client means what server means.
type dryRunValue bool

func (v *dryRunValue) Set(text string) error {
	switch text {
	case "client", "server":
		*v = true
		return nil
	case "none":
		*v = false
		return nil
	}
	said, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("write client, server or none, or true or false")
	}
	*v = dryRunValue(said)
	return nil
}

func (v *dryRunValue) String() string { return strconv.FormatBool(bool(*v)) }

// Type has help texts show the flag as one that needs no value.
func (v *dryRunValue) Type() string { return "bool" }
