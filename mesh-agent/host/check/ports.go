package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Port is an address that the agent or Envoy will listen on.
type Port struct {
	What    string // what listens there, such as Envoy's admin API
	Address string
	Flag    string // the flag that changes it, without dashes; "" for none
	UDP     bool   // UDP as well as TCP
}

// Ports checks that the addresses are free. A running agent has them already.
func Ports(ports []Port, running bool) Check {
	return func(context.Context) (all []Finding) {
		if running {
			return []Finding{ok("ports", "an agent runs on this machine already, and has them")}
		}
		for _, p := range ports {
			if p.Address != "" {
				all = append(all, p.free())
			}
		}
		return all
	}
}

func (p Port) free() Finding {
	err := listens("tcp", p.Address)
	if err == nil && p.UDP {
		err = listens("udp", p.Address)
	}
	_, port, _ := net.SplitHostPort(p.Address)
	other := ""
	if p.Flag != "" {
		other = ", or choose another address with --" + p.Flag
	}
	switch {
	case err == nil:
		return ok("ports", "%s is free for %s", p.Address, p.What)
	case errors.Is(err, syscall.EADDRINUSE):
		return fail("ports", fmt.Sprintf("see who has it (ss -lntup 'sport = :%s') and end that%s", port, other), "%s is taken, which is for %s", p.Address, p.What)
	case errors.Is(err, os.ErrPermission):
		return fail("ports", "run the agent as root or with the capability CAP_NET_BIND_SERVICE"+other, "%s, for %s, may not be opened by this account", p.Address, p.What)
	default:
		return fail("ports", "correct the address"+other, "%s cannot be opened for %s: %v", p.Address, p.What, err)
	}
}

func listens(network, address string) error {
	if network == "udp" {
		conn, err := net.ListenPacket(network, address)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	l, err := net.Listen(network, address)
	if err == nil {
		err = l.Close()
	}
	return err
}

// Services checks that something listens on the ports of this machine's services.
func Services(ports map[string]uint32) Check {
	return func(ctx context.Context) (all []Finding) {
		for name, port := range ports {
			at := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
			if err != nil {
				all = append(all, warn("services", "start the application, or correct the port in the configuration file", "nobody listens on port %d, of %s, at loopback", port, name))
				continue
			}
			conn.Close()
			all = append(all, ok("services", "somebody listens on port %d, of %s", port, name))
		}
		return all
	}
}
