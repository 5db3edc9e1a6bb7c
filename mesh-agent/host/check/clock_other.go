//go:build !linux

package check

import "errors"

// Synchronized fails: only Linux is supported.
func Synchronized() (bool, error) { return false, errors.New("this is not Linux") }
