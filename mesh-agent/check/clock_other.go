//go:build !linux

package check

import "errors"

// Synchronized is known on Linux alone.
func Synchronized() (bool, error) { return false, errors.New("this is not Linux") }
