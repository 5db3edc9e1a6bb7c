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

func (p Plan) checkRoutes(context.Context) error {
	if !p.transparentInbound() {
		return nil
	}
	return missing("ip", "iproute2")
}

func (p Plan) addRoutes(ctx context.Context) error {
	if !p.transparentInbound() {
		return removeRoutes(ctx)
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

// hasRule says "fwmark 0x539 lookup 133", as ip prints it.
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
	return errors.Join(reasons...)
}
