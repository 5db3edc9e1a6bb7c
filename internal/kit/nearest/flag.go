package nearest

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Flag adds to the error of a flag that there is not which flag was meant, if one is near.
func Flag(flags *pflag.FlagSet, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	near := Word(missing.GetSpecifiedName(), known)
	if near == "" {
		return err
	}
	return fmt.Errorf("%w (did you mean --%s?)", err, near)
}
