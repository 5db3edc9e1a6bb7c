// Package bootstrap makes the configuration that Envoy starts with: who the proxy is and where its discovery is.
// Everything else comes over xDS. It is pure: options in, message out.
package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options says who the proxy is and where its agent is.
type Options struct {
	Socket string // of the agent, by which everything comes
	XDS    XDS

	Role           Role
	IP             string   // the address other members reach this machine by
	OtherIPs       []string // of the machine, of other families
	ID             string   // unique in the mesh; by habit "machine.namespace"
	Namespace      string
	Domain         string // the DNS domain that short host names are completed with
	ServiceAccount string // may be empty
	Labels         map[string]string
	Locality       string // region/zone/subzone
	Network        string
	Interception   Interception
	Resolver       string // where Envoy asks for names, host:port, if applications ask the agent: services without an address may then be given one

	Admin string // host:port on the loopback interface; port 0 lets Envoy choose

	// Identity tells that the agent serves the machine's certificate, and whom the mesh trusts. Without it proxies speak plaintext.
	Identity bool

	Tuning Tuning
}

// XDS is the variant of the protocol that Envoy speaks to discovery.
type XDS string

// Delta sends what changed; SotW, state of the world, repeats everything of a type.
const (
	Delta XDS = "delta"
	SotW  XDS = "sotw"
)

// Role is what the proxy does for the mesh.
type Role string

// A sidecar serves the applications on its machine; a gateway serves those who are not in the mesh, on the ports of the
// Gateways that select it.
const (
	Sidecar Role = "sidecar"
	Gateway Role = "gateway"
)

// nodeType is what Istio calls the role in the id of a node.
func (r Role) nodeType() string {
	if r == Gateway {
		return "router"
	}
	return string(r)
}

// Interception is how traffic comes to Envoy.
type Interception string

// With None applications name Envoy's ports themselves; the others are the machine's firewall sending traffic there.
const (
	None     Interception = "NONE"
	Redirect Interception = "REDIRECT"
	TProxy   Interception = "TPROXY"
)

// check reports everything that is wrong, not only the first.
func (o Options) check() error {
	return errors.Join(
		checkSocket(o.Socket),
		oneOf("xDS variant", o.XDS, Delta, SotW),
		oneOf("role", o.Role, Sidecar, Gateway),
		oneOf("interception mode", o.Interception, None, Redirect, TProxy),
		checkRole(o.Role, o.Interception),
		checkIP(o.IP),
		checkLocality(o.Locality),
		checkNodePart("id", o.ID),
		checkNodePart("namespace", o.Namespace),
		checkNodePart("domain", o.Domain),
		checkAdmin(o.Admin),
		o.Tuning.check(),
	)
}

func checkSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("the agent's socket %q: must be an absolute path", path)
	}
	return nil
}

// checkRole refuses to have a gateway take traffic that was not meant for it.
func checkRole(role Role, mode Interception) error {
	if role == Gateway && mode != None {
		return fmt.Errorf("interception mode %q: a gateway opens its ports itself, nothing is redirected to it: leave the mode %s", mode, None)
	}
	return nil
}

// checkLocality takes a region, with a zone and a part of that after it.
func checkLocality(locality string) error {
	parts := strings.Split(locality, "/")
	if locality != "" && (len(parts) > 3 || slices.Contains(parts, "")) {
		return fmt.Errorf("locality %q: write REGION, REGION/ZONE or REGION/ZONE/SUBZONE", locality)
	}
	return nil
}

func checkIP(ip string) error {
	if _, err := netip.ParseAddr(ip); err != nil {
		return fmt.Errorf("node IP %q: not an IP address", ip)
	}
	return nil
}

// checkNodePart guards the node id, whose parts a tilde separates.
func checkNodePart(what, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must not be empty", what)
	}
	if strings.Contains(value, "~") {
		return fmt.Errorf("%s %q: must not contain a tilde, it separates the parts of a node id", what, value)
	}
	return nil
}

// checkAdmin keeps the admin API on the machine: whoever reaches it can stop the proxy and read its keys.
func checkAdmin(address string) error {
	if err := checkAddress("admin", address); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("admin address %q: Envoy's admin API may only listen on a loopback address such as 127.0.0.1:15000", address)
	}
	return nil
}

func checkAddress(what, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s address %q: expected host:port", what, address)
	}
	if host == "" {
		return fmt.Errorf("%s address %q: the host is missing", what, address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s address %q: %q is not a port", what, address, port)
	}
	return nil
}

func oneOf[T ~string](what string, value T, allowed ...T) error {
	names := make([]string, len(allowed))
	for i, a := range allowed {
		if value == a {
			return nil
		}
		names[i] = string(a)
	}
	return fmt.Errorf("%s %q: expected one of %s", what, value, strings.Join(names, ", "))
}
