// Package bootstrap makes the configuration that Envoy starts with: who the proxy is and where its
// agent is. Everything else comes over xDS. It is pure: options in, message out.
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

// Options says who the proxy is and where its agent is. Templates use its fields by name
// (Complete).
type Options struct {
	Socket string // the agent's, for configuration and secrets
	XDS    XDS

	Role           Role
	IP             string   // the address at which others reach this machine
	OtherIPs       []string // the machine's, of other families
	ID             string   // unique in the mesh; by convention "machine.namespace"
	Namespace      string
	Domain         string // completes short host names
	ServiceAccount string // may be empty
	Labels         map[string]string
	Locality       string // region/zone/subzone
	Network        string
	Interception   Interception
	Resolver       string // host:port of the agent's resolver, if applications use it; then services without an address may get one

	Admin string // host:port on loopback; port 0 lets Envoy choose

	// Identity means that the agent serves the machine's certificate and the trust bundle. Without
	// it, proxies speak plaintext.
	Identity bool

	Tuning Tuning
}

// XDS is the form of xDS that Envoy uses.
type XDS string

// Delta sends changes; SotW, the state of the world, repeats everything of a type.
const (
	Delta XDS = "delta"
	SotW  XDS = "sotw"
)

// Role is what the proxy does for the mesh.
type Role string

// A sidecar serves the applications on its machine. A gateway serves clients outside the mesh, on
// the ports of the Gateways that select it.
const (
	Sidecar Role = "sidecar"
	Gateway Role = "gateway"
)

// nodeType is Istio's name for the role in a node ID.
func (r Role) nodeType() string {
	if r == Gateway {
		return "router"
	}
	return string(r)
}

// Interception is how traffic reaches Envoy.
type Interception string

// With None, applications connect to Envoy's ports; with the others, the machine's firewall
// redirects traffic.
const (
	None     Interception = "NONE"
	Redirect Interception = "REDIRECT"
	TProxy   Interception = "TPROXY"
)

// check reports all problems.
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

// checkRole refuses redirection for a gateway.
func checkRole(role Role, mode Interception) error {
	if role == Gateway && mode != None {
		return fmt.Errorf("interception mode %q: a gateway opens its ports itself, nothing is redirected to it: leave the mode %s", mode, None)
	}
	return nil
}

// checkLocality accepts REGION, REGION/ZONE and REGION/ZONE/SUBZONE.
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

// checkNodePart checks a part of the node ID, whose separator is a tilde.
func checkNodePart(what, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must not be empty", what)
	}
	if strings.Contains(value, "~") {
		return fmt.Errorf("%s %q: must not contain a tilde, it separates the parts of a node id", what, value)
	}
	return nil
}

// checkAdmin requires loopback for the admin API: whoever reaches it can stop the proxy and read
// its keys.
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
