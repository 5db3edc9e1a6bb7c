package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
)

// Servers are the addresses of discovery, as a flag gives them.
type Servers struct {
	Addresses []string

	flag string
}

// Flags declares the flag, which has another name for each command.
func (s *Servers) Flags(flags *pflag.FlagSet, name, usage string) {
	s.flag = name
	flags.StringSliceVar(&s.Addresses, name, nil, usage)
}

// AssumePort adds a port to the addresses that have none.
func (s *Servers) AssumePort(port string) {
	for i, address := range s.Addresses {
		host := strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
		if _, notIP := netip.ParseAddr(host); notIP == nil || host != "" && !strings.ContainsAny(address, ":/[]") {
			s.Addresses[i] = net.JoinHostPort(host, port)
		}
	}
}

// Check returns an error that names the flag, unless there are addresses and all of them are right.
func (s *Servers) Check() error {
	if len(s.Addresses) == 0 {
		return fmt.Errorf("where is discovery? Say it with --%s host:port", s.flag)
	}
	if err := checkAddresses(s.Addresses); err != nil {
		return fmt.Errorf("%w: correct --%s, or the variable PGMESH_%s if it is from there", err, s.flag, strings.ToUpper(s.flag))
	}
	return nil
}

// checkAddresses returns an error unless every address is host:port.
func checkAddresses(addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("no address of discovery is given")
	}
	for _, address := range addresses {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return fmt.Errorf("discovery is to be at %q, which is not host:port", address)
		}
	}
	return nil
}
