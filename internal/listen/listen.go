// Package listen opens the sockets that programs serve on, and keeps plaintext where it was asked for.
package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/spf13/pflag"
)

// Plaintext says whether a program may serve without TLS, and where.
type Plaintext struct {
	Allowed    bool
	AnyAddress bool
}

// Flags declares the two flags that allow plaintext.
func (p *Plaintext) Flags(f *pflag.FlagSet) {
	f.BoolVar(&p.Allowed, "insecure", false, "serve without TLS, on loopback only")
	f.BoolVar(&p.AnyAddress, "insecure-any-address", false,
		"with --insecure: serve without TLS on other addresses too; everyone who reaches them can read and change the mesh")
}

// TCP listens on an address that the given flag names. Plaintext has to be allowed for it.
func (p Plaintext) TCP(flag, address string) (net.Listener, error) {
	if !p.Allowed {
		return nil, fmt.Errorf("--%s %s: serving without TLS has to be asked for with --insecure (TLS is not built yet)", flag, address)
	}
	if !p.AnyAddress && !loopback(address) {
		return nil, fmt.Errorf("--%s %s: --insecure alone serves on loopback only; choose 127.0.0.1, "+
			"or add --insecure-any-address if everyone who reaches %s may read and change the mesh", flag, address, address)
	}
	return TCP(flag, address)
}

// TCP listens on an address, and explains a failure by the flag that changes the address.
func TCP(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--%s %s: another program listens there; stop it, or choose another address with --%s", flag, address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
