package redirect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// iptables manages rules with a program of the iptables family: x_tables, or nf_tables behind the
// same interface. The names for IPv6, saving and restoring derive from the program's.
type iptables struct{ program string }

func (i iptables) String() string { return i.program }

// command returns a command's name, such as ip6tables-legacy-restore.
func (i iptables) command(f family, does string) string {
	program := i.program
	if f == ipv6 {
		program = "ip6" + strings.TrimPrefix(program, "ip")
	}
	return program + does
}

// usableFamilies returns IPv4, and IPv6 unless the kernel lacks it.
func usableFamilies() []family {
	if _, err := os.Stat("/proc/thread-self/net/if_inet6"); err != nil {
		return []family{ipv4}
	}
	return []family{ipv4, ipv6}
}

func (i iptables) save(ctx context.Context, f family) (Saved, error) {
	text, err := call(ctx, "", i.command(f, "-save"), "-c")
	return Saved(counters.ReplaceAllString(text, "")), err
}

// counters matches the counters before a rule.
var counters = regexp.MustCompile(`(?m)^\[\d+:\d+\] `)

func (i iptables) restore(ctx context.Context, p Plan, more ...string) error {
	for _, f := range usableFamilies() {
		saved, err := i.save(ctx, f)
		if err != nil {
			return err
		}
		text := p.IPTables(f == ipv6, saved)
		if text == "" {
			continue
		}
		if _, err := call(ctx, text, i.command(f, "-restore"), append([]string{"--noflush", "--wait", "5"}, more...)...); err != nil {
			return err
		}
	}
	return nil
}

func (i iptables) Check(ctx context.Context, p Plan) error {
	if err := i.restore(ctx, p, "--test"); err != nil {
		return fmt.Errorf("%w (the kernel needs its modules xt_recent, xt_owner, xt_REDIRECT and, for TPROXY, xt_TPROXY)", err)
	}
	return p.checkRoutes()
}

func (i iptables) Apply(ctx context.Context, p Plan) error {
	if err := p.addRoutes(ctx); err != nil {
		return err
	}
	if err := i.restore(ctx, p); err != nil {
		return err
	}
	return p.writeLists("+")
}

// recentLists is where the kernel exposes its xt_recent lists. The path is the thread's, as a
// thread may be in another network namespace than its process.
const recentLists = "/proc/thread-self/net/xt_recent"

// Confirm fails if others have removed the jumps to our chains.
func (i iptables) Confirm(ctx context.Context, p Plan) error {
	for _, f := range p.families() {
		saved, err := i.save(ctx, f)
		if err != nil {
			return err
		}
		for _, c := range p.chains() {
			if !saved.has(c.hook.table, p.jump(c.hook)) {
				return fmt.Errorf("there is no rule any more that leads to %s of %s", p.chainName(c.hook), i.command(f, ""))
			}
		}
	}
	return p.writeLists("+")
}

// Release empties the lists.
func (i iptables) Release(_ context.Context, p Plan) error { return p.writeLists("-") }

func (p Plan) writeLists(sign string) error {
	for _, f := range p.families() {
		file := filepath.Join(recentLists, p.confirmedList(f))
		if err := os.WriteFile(file, []byte(sign+f.unspecified()+"\n"), 0); err != nil {
			return fmt.Errorf("confirm the rules of iptables: %w (only root may, where there is no nft)", err)
		}
	}
	return nil
}

func (i iptables) Remove(ctx context.Context, p Plan) error {
	none := Plan{Table: p.Table}
	return errors.Join(i.restore(ctx, none), removeRoutes(ctx))
}

// loaded reports whether the kernel has loaded legacy tables. Without this check, reading them
// would load them.
func (i iptables) loaded(f family) bool {
	if i.program != ByIPTablesOnly {
		return true
	}
	file := map[family]string{ipv4: "ip_tables_names", ipv6: "ip6_tables_names"}[f]
	names, err := os.ReadFile(filepath.Join("/proc/thread-self/net", file))
	return err == nil && len(names) > 0
}

// redirectRule matches a redirecting rule in the output of iptables-save -c.
var redirectRule = regexp.MustCompile(`^\[(\d+):\d+\] -A (\S+) .*--comment "([^"]*)" -j (?:REDIRECT|TPROXY)`)

func (i iptables) State(ctx context.Context, p Plan) (State, error) {
	var s State
	sums := map[string]int{}
	for _, f := range usableFamilies() {
		if !i.loaded(f) {
			continue
		}
		text, err := call(ctx, "", i.command(f, "-save"), "-c")
		if err != nil {
			return s, err
		}
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			s.Present = s.Present || strings.HasPrefix(lines.Text(), ":"+strings.ToUpper(p.Table)+"_")
			found := redirectRule.FindStringSubmatch(lines.Text())
			if found == nil || !strings.HasPrefix(found[2], strings.ToUpper(p.Table)+"_") {
				continue
			}
			n, _ := strconv.ParseUint(found[1], 10, 64)
			why := strings.ReplaceAll(found[3], `\'`, `'`)
			at, known := sums[why]
			if !known {
				at = len(s.Counts)
				sums[why] = at
				s.Counts = append(s.Counts, RuleCount{Why: why})
			}
			s.Counts[at].Count += n
		}
	}
	if s.Present {
		s.By = i.program
	}
	return s, nil
}
