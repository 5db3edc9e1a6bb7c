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

// Kernel is a way to the rules in the kernel. Apply replaces what was there before in one moment, or does nothing, and confirms the rules.
type Kernel interface {
	// Check asks whether the kernel would take the plan.
	Check(ctx context.Context, p Plan) error
	Apply(ctx context.Context, p Plan) error
	// Confirm has the rules count for another of the plan's timeouts.
	Confirm(ctx context.Context, p Plan) error
	// Release has the rules count no more, for new connections. Those that are open go on.
	Release(ctx context.Context, p Plan) error
	// Remove takes the rules away, and with them connections that are still open. Nothing happens where there are none.
	Remove(ctx context.Context, p Plan) error
	State(ctx context.Context, p Plan) (State, error)
	// String is the program that does it.
	String() string
}

// State is what there is in the kernel.
type State struct {
	// There is whether there are rules at all.
	There bool `json:"there"`
	// By is the program that reads and changes them.
	By string `json:"by,omitempty"`
	// Confirmed is how long they still count, if nobody confirms them again.
	Confirmed time.Duration `json:"confirmed_for_ns"`
	// Counted are the connections that rules have redirected, by what they are for.
	Counted []Counted `json:"redirected,omitempty"`
}

// Counted is how many connections a rule has redirected; with TPROXY inbound, how many packets.
type Counted struct {
	Why   string `json:"rule"`
	Count uint64 `json:"count"`
}

// The programs that may change the rules. Of iptables the one by that name is the machine's choice of the other two.
const (
	Auto           = "auto"
	ByNFT          = "nft"
	ByIPTables     = "iptables"
	ByIPTablesNFT  = "iptables-nft"
	ByIPTablesOnly = "iptables-legacy"
)

// Programs are the values that choose one.
var Programs = []string{Auto, ByNFT, ByIPTables, ByIPTablesNFT, ByIPTablesOnly}

// Open finds the way to the rules by the program's name; Auto tries nft and then iptables with a plan.
func Open(ctx context.Context, by string, p Plan) (Kernel, error) {
	switch by {
	case ByNFT:
		return nft{}, missing(ByNFT, "nftables")
	case ByIPTables, ByIPTablesNFT, ByIPTablesOnly:
		return iptables{by}, missing(by, "iptables")
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

// Find is every program with rules of this table, whoever made them.
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
		// The last is another name of one before it, where there are others.
		if state.There && (k.String() != ByIPTables || len(found) == 0) {
			found = append(found, k)
		}
	}
	return found, errors.Join(errs...)
}

// RemoveAll takes away what Find finds, and tells by which programs.
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

// Usual is the program that auto would try first.
func Usual() string {
	if !installed(ByNFT) && installed(ByIPTables) {
		return ByIPTables
	}
	return ByNFT
}

// CheckProgram refuses a name that is none of Programs.
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

func missing(program, pkg string) error {
	if !installed(program) {
		return fmt.Errorf("there is no %s in PATH: install it (apt install %s, dnf install %[2]s)", program, pkg)
	}
	return nil
}

// toolLimit bounds a call of a program that changes rules; they take milliseconds, or wait for another's lock.
const toolLimit = 10 * time.Second

// call runs a program on an input and returns what it printed.
func call(ctx context.Context, input, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolLimit)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaint
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(complaint.String())
		if strings.Contains(said, "Operation not permitted") || strings.Contains(said, "Permission denied") {
			said += "; changing rules takes the capability CAP_NET_ADMIN (root has it, and so has a service with AmbientCapabilities=CAP_NET_ADMIN)"
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said)
	}
	return out.String(), nil
}
