// Package listen opens the sockets that programs serve on, and allows plaintext only where flags
// ask for it.
package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/spf13/pflag"
)

// Transport is how two programs speak with each other.
type Transport string

const (
	Secure   Transport = "secure"   // over TLS
	Insecure Transport = "insecure" // in plaintext
	// Default is what flags say, for a setting of one peer that says neither.
	Default Transport = ""
)

// SecureIf returns Secure if TLS was asked for, and else Insecure.
func SecureIf(asked bool) Transport {
	if asked {
		return Secure
	}
	return Insecure
}

// Plaintext says whether, and on which addresses, a program may speak without TLS.
type Plaintext struct {
	Allowed    bool
	AnyAddress bool
}

// Flags declares the flags that allow a server to speak plaintext.
func (p *Plaintext) Flags(f *pflag.FlagSet) {
	f.BoolVar(&p.Allowed, "insecure", false, "serve without TLS, on loopback only")
	f.BoolVar(&p.AnyAddress, "insecure-any-address", false,
		"with --insecure: serve without TLS on other addresses too; everyone who reaches them can read and change the mesh")
}

// ClientFlags declares the same flags for a program that only connects.
func (p *Plaintext) ClientFlags(f *pflag.FlagSet) {
	f.BoolVar(&p.Allowed, "insecure", false, "speak to the server without TLS, on loopback only")
	f.BoolVar(&p.AnyAddress, "insecure-any-address", false,
		"with --insecure: speak without TLS to other addresses too; everyone on the way can read and change what is sent")
}

// ErrSecure is returned when flags for plaintext and for TLS are both set.
var ErrSecure = errors.New("--insecure and the flags for TLS exclude each other: choose one way to speak")

// TCP listens without TLS on the address of a flag, if plaintext is allowed there.
func (p Plaintext) TCP(flag, address string) (net.Listener, error) {
	if !p.Allowed {
		return nil, fmt.Errorf("--%s %s: serving without TLS has to be asked for with --insecure", flag, address)
	}
	if !p.AnyAddress && !Loopback(address) {
		return nil, fmt.Errorf("--%s %s: --insecure alone serves on loopback only; choose 127.0.0.1, "+
			"or add --insecure-any-address if everyone who reaches %s may read and change the mesh", flag, address, address)
	}
	return TCP(flag, address)
}

// Server listens for a server that speaks by t. --insecure is refused for one that has TLS.
func (p Plaintext) Server(flag, address string, t Transport) (net.Listener, error) {
	switch {
	case t == Secure && p.Allowed:
		return nil, ErrSecure
	case t == Secure:
		return TCP(flag, address)
	case !p.Allowed:
		return nil, fmt.Errorf("--%s %s: give --tls-cert and --tls-key; or add --insecure to serve without TLS, on loopback", flag, address)
	}
	return p.TCP(flag, address)
}

// CheckPeer refuses to connect to an address in plaintext unless that is allowed there.
func (p Plaintext) CheckPeer(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%w; write it as host:port", err)
	}
	if p.Allowed && !p.AnyAddress && !Loopback(address) {
		return errors.New("--insecure alone is for servers on loopback; " +
			"add --insecure-any-address if everyone on the way to it may read and change what is sent")
	}
	return nil
}

// TCP listens on an address. Its error names the flag that changes the address. An empty one would be some
// port of all addresses.
func TCP(flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, fmt.Errorf("--%s is empty: give an address as host:port, on loopback if nobody else is to reach it", flag)
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--%s %s: another program listens there; stop it, or choose another address with --%s", flag, address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, nil
}

// Loopback reports whether an address, host:port, is on loopback.
func Loopback(address string) bool {
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
