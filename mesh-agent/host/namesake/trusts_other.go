//go:build !linux

package namesake

import (
	"errors"
	"net"
)

func trusts(*net.UnixConn) (bool, error) { return false, errors.ErrUnsupported }
