package redirect

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Packets with Envoy's mark are the machine's own, whatever their destination: routesTable says so, and is Istio's number for it.
const routesTable = "133"

func (p Plan) transparentInbound() bool { return p.Mode == TProxy && len(p.Inbound.Ports) > 0 }

// sourceNeeded tells whether the machine needs the IPv6 address that Envoy hands connections over from. The one of IPv4 is in 127.0.0.0/8, all
// of which it has.
func (p Plan) sourceNeeded() bool { return p.IPv6 && len(p.Inbound.Ports) > 0 }

func (p Plan) checkRoutes() error {
	if p.transparentInbound() || p.sourceNeeded() {
		return missing("ip", "iproute2")
	}
	return nil
}

// addRoutes makes what the rules need beside them: it is there before them.
func (p Plan) addRoutes(ctx context.Context) error {
	if p.sourceNeeded() {
		if _, err := call(ctx, "", "ip", "-6", "addr", "replace", envoySource[1].String(), "dev", lo, "nodad"); err != nil {
			return err
		}
	}
	if !p.transparentInbound() {
		return nil
	}
	for _, f := range p.families() {
		flag := fmt.Sprintf("-%d", f)
		if _, err := call(ctx, "", "ip", flag, "route", "replace", "local", "default", "dev", lo, "table", routesTable); err != nil {
			return err
		}
		there, err := hasRule(ctx, flag)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if _, err := call(ctx, "", "ip", flag, "rule", "add", "fwmark", fmt.Sprint(envoyMark), "lookup", routesTable); err != nil {
			return err
		}
	}
	return nil
}

// hasRule looks for "fwmark 0x539 lookup 133", as ip prints it.
func hasRule(ctx context.Context, family string) (bool, error) {
	rules, err := call(ctx, "", "ip", family, "rule", "show")
	return strings.Contains(rules, fmt.Sprintf("fwmark %#x lookup %s", envoyMark, routesTable)), err
}

// removeRoutes takes back what addRoutes has added, by this agent or one before.
func removeRoutes(ctx context.Context) error {
	if !installed("ip") {
		return nil // nor could anything have been added
	}
	var reasons []error
	for _, f := range usableFamilies() {
		flag := fmt.Sprintf("-%d", f)
		there, err := hasRule(ctx, flag)
		if err != nil || !there {
			reasons = append(reasons, err)
			continue
		}
		_, err = call(ctx, "", "ip", flag, "rule", "del", "fwmark", fmt.Sprint(envoyMark), "lookup", routesTable)
		_, err2 := call(ctx, "", "ip", flag, "route", "flush", "table", routesTable)
		reasons = append(reasons, err, err2)
	}
	addresses, err := call(ctx, "", "ip", "-6", "addr", "show", "dev", lo)
	if err == nil && strings.Contains(addresses, envoySource[1].String()+" ") {
		_, err = call(ctx, "", "ip", "-6", "addr", "del", envoySource[1].String(), "dev", lo)
	}
	return errors.Join(append(reasons, err)...)
}
