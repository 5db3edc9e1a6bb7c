package redirect

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// routingTable routes packets with Envoy's mark to this machine, whatever their destination. The
// number is Istio's.
const routingTable = "133"

func (p Plan) transparentInbound() bool { return p.Mode == TProxy && len(p.Inbound.Ports) > 0 }

// needsSourceAddress reports whether the machine needs the IPv6 address that Envoy connects to its
// programs from. IPv4's is in 127.0.0.0/8, all of which every machine has.
func (p Plan) needsSourceAddress() bool { return p.IPv6 && len(p.Inbound.Ports) > 0 }

func (p Plan) checkRoutes() error {
	if p.transparentInbound() || p.needsSourceAddress() {
		return checkInstalled("ip", "iproute2")
	}
	return nil
}

// addRoutes adds what the rules depend on. It runs before the rules are applied.
func (p Plan) addRoutes(ctx context.Context) error {
	if p.needsSourceAddress() {
		if _, err := call(ctx, "", "ip", "-6", "addr", "replace", envoySource[1].String(), "dev", lo, "nodad"); err != nil {
			return err
		}
	}
	if !p.transparentInbound() {
		return nil
	}
	for _, f := range p.families() {
		flag := fmt.Sprintf("-%d", f)
		if _, err := call(ctx, "", "ip", flag, "route", "replace", "local", "default", "dev", lo, "table", routingTable); err != nil {
			return err
		}
		there, err := hasRule(ctx, flag)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if _, err := call(ctx, "", "ip", flag, "rule", "add", "fwmark", fmt.Sprint(envoyMark), "lookup", routingTable); err != nil {
			return err
		}
	}
	return nil
}

// hasRule looks for "fwmark 0x539 lookup 133", as ip prints it.
func hasRule(ctx context.Context, family string) (bool, error) {
	rules, err := call(ctx, "", "ip", family, "rule", "show")
	return strings.Contains(rules, fmt.Sprintf("fwmark %#x lookup %s", envoyMark, routingTable)), err
}

// removeRoutes removes what addRoutes of this or an earlier agent added.
func removeRoutes(ctx context.Context) error {
	if !installed("ip") {
		return nil // then addRoutes could not have added anything
	}
	var reasons []error
	for _, f := range usableFamilies() {
		flag := fmt.Sprintf("-%d", f)
		there, err := hasRule(ctx, flag)
		if err != nil || !there {
			reasons = append(reasons, err)
			continue
		}
		_, err = call(ctx, "", "ip", flag, "rule", "del", "fwmark", fmt.Sprint(envoyMark), "lookup", routingTable)
		_, err2 := call(ctx, "", "ip", flag, "route", "flush", "table", routingTable)
		reasons = append(reasons, err, err2)
	}
	addresses, err := call(ctx, "", "ip", "-6", "addr", "show", "dev", lo)
	if err == nil && strings.Contains(addresses, envoySource[1].String()+" ") {
		_, err = call(ctx, "", "ip", "-6", "addr", "del", envoySource[1].String(), "dev", lo)
	}
	return errors.Join(append(reasons, err)...)
}
