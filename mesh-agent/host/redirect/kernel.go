package redirect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Kernel applies plans to the kernel. Apply atomically replaces earlier rules and confirms the new
// ones, or changes nothing.
type Kernel interface {
	// Check asks whether the kernel would accept the plan.
	Check(ctx context.Context, p Plan) error
	Apply(ctx context.Context, p Plan) error
	// Confirm keeps the rules in force for another of the plan's timeouts.
	Confirm(ctx context.Context, p Plan) error
	// Release makes the rules ineffective for new connections. Open ones continue.
	Release(ctx context.Context, p Plan) error
	// Remove removes the rules, and cuts connections that are still open. It does nothing if there
	// are no rules.
	Remove(ctx context.Context, p Plan) error
	State(ctx context.Context, p Plan) (State, error)
	// String returns the name of the program used.
	String() string
}

// State describes the rules in the kernel.
type State struct {
	// Present reports whether there are any.
	Present bool `json:"there"`
	// By is the program that reads and changes them.
	By string `json:"by,omitempty"`
	// Confirmed is how long they remain in force without another confirmation.
	Confirmed time.Duration `json:"confirmed_for_ns"`
	// Counts are the redirected connections of each rule.
	Counts []RuleCount `json:"redirected,omitempty"`
}

// RuleCount is how many connections a rule has redirected; with TPROXY inbound, how many packets.
type RuleCount struct {
	Why   string `json:"rule"`
	Count uint64 `json:"count"`
}

// The programs that can change rules. The machine's iptables is one of the other two.
const (
	Auto           = "auto"
	ByNFT          = "nft"
	ByIPTables     = "iptables"
	ByIPTablesNFT  = "iptables-nft"
	ByIPTablesOnly = "iptables-legacy"
)

// Programs lists the accepted names.
var Programs = []string{Auto, ByNFT, ByIPTables, ByIPTablesNFT, ByIPTablesOnly}

// Open returns the Kernel for a program. Auto tries nft and then iptables with a plan.
func Open(ctx context.Context, by string, p Plan) (Kernel, error) {
	switch by {
	case ByNFT:
		return nft{}, checkInstalled(ByNFT, "nftables")
	case ByIPTables, ByIPTablesNFT, ByIPTablesOnly:
		return iptables{by}, checkInstalled(by, "iptables")
	case Auto:
	default:
		return nil, CheckProgram(by)
	}
	var reasons []error
	for _, name := range []string{ByNFT, ByIPTables} {
		k, err := Open(ctx, name, p)
		if err == nil {
			err = k.Check(ctx, p)
		}
		if err == nil || ctx.Err() != nil {
			return k, ctx.Err()
		}
		reasons = append(reasons, err)
	}
	return nil, fmt.Errorf("this machine cannot redirect traffic; applications may connect to Envoy's own ports instead (docs/redirection.md):\n%w",
		errors.Join(reasons...))
}

// Find returns the programs that have rules of this table, whoever made them.
func Find(ctx context.Context, table string) (found []Kernel, err error) {
	p := Plan{Table: table}
	var errs []error
	for _, k := range []Kernel{nft{}, iptables{ByIPTablesNFT}, iptables{ByIPTablesOnly}, iptables{ByIPTables}} {
		if !installed(k.String()) {
			continue
		}
		state, err := k.State(ctx, p)
		if err != nil {
			errs = append(errs, err)
		}
		// ByIPTables is another name for one of the others, where those are installed.
		if state.Present && (k.String() != ByIPTables || len(found) == 0) {
			found = append(found, k)
		}
	}
	return found, errors.Join(errs...)
}

// RemoveAll removes the rules that Find finds, and returns the programs used.
func RemoveAll(ctx context.Context, table string) (removed []string, err error) {
	found, err := Find(ctx, table)
	errs := []error{err}
	for _, k := range found {
		if err := k.Remove(ctx, Plan{Table: table}); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, k.String())
	}
	return removed, errors.Join(errs...)
}

// Preferred returns the program that Auto tries first.
func Preferred() string {
	if !installed(ByNFT) && installed(ByIPTables) {
		return ByIPTables
	}
	return ByNFT
}

// CheckProgram returns an error for an unknown program.
func CheckProgram(by string) error {
	if slices.Contains(Programs, by) {
		return nil
	}
	return fmt.Errorf("%q changes no rules: choose one of %s", by, strings.Join(Programs, ", "))
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func checkInstalled(program, pkg string) error {
	if !installed(program) {
		return fmt.Errorf("there is no %s in PATH: install it (apt install %s, dnf install %[2]s)", program, pkg)
	}
	return nil
}

// callTimeout bounds a call of a program; it takes milliseconds, or waits for another's lock.
const callTimeout = 10 * time.Second

// call runs a program with an input and returns its output.
func call(ctx context.Context, input, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &stderr
	if err := cmd.Run(); err != nil {
		message := strings.TrimSpace(stderr.String())
		if strings.Contains(message, "Operation not permitted") || strings.Contains(message, "Permission denied") {
			message += "; changing rules takes the capability CAP_NET_ADMIN (root has it, and so has a service with AmbientCapabilities=CAP_NET_ADMIN)"
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, message)
	}
	return out.String(), nil
}
