//go:build !linux

package sockets

import "errors"

// TCP fails: only Linux is supported.
func TCP() ([]Socket, error) { return nil, errors.New("TCP sockets are known on Linux alone") }
