//go:build !linux

package sockets

import "errors"

// TCP is not known here.
func TCP() ([]Socket, error) { return nil, errors.New("TCP sockets are known on Linux alone") }
