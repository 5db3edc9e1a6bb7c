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

// iptables is the kernel's x_tables, or nf_tables in its clothes, by a program whose name the family and "-save" and "-restore" are put into.
type iptables struct{ program string }

func (i iptables) String() string { return i.program }

// named is ip6tables-legacy-restore, for one.
func (i iptables) named(f family, does string) string {
	program := i.program
	if f == ipv6 {
		program = "ip6" + strings.TrimPrefix(program, "ip")
	}
	return program + does
}

// usableFamilies are IPv4, and IPv6 unless the kernel is without it.
func usableFamilies() []family {
	if _, err := os.Stat("/proc/thread-self/net/if_inet6"); err != nil {
		return []family{ipv4}
	}
	return []family{ipv4, ipv6}
}

func (i iptables) saved(ctx context.Context, f family) (Saved, error) {
	text, err := call(ctx, "", i.named(f, "-save"), "-c")
	return Saved(counters.ReplaceAllString(text, "")), err
}

// counters stand before a rule.
var counters = regexp.MustCompile(`(?m)^\[\d+:\d+\] `)

func (i iptables) restore(ctx context.Context, p Plan, more ...string) error {
	for _, f := range usableFamilies() {
		saved, err := i.saved(ctx, f)
		if err != nil {
			return err
		}
		text := p.IPTables(f == ipv6, saved)
		if text == "" {
			continue
		}
		if _, err := call(ctx, text, i.named(f, "-restore"), append([]string{"--noflush", "--wait", "5"}, more...)...); err != nil {
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

// lists are where the kernel lets its lists of addresses be read and changed. A thread may be in another network than its process.
const lists = "/proc/thread-self/net/xt_recent"

// Confirm fails where others have taken away what leads to the rules.
func (i iptables) Confirm(ctx context.Context, p Plan) error {
	for _, f := range p.families() {
		saved, err := i.saved(ctx, f)
		if err != nil {
			return err
		}
		for _, c := range p.chains() {
			if !saved.has(c.hook.table, p.jump(c.hook)) {
				return fmt.Errorf("there is no rule any more that leads to %s of %s", p.chainName(c.hook), i.named(f, ""))
			}
		}
	}
	return p.writeLists("+")
}

// Release empties the lists.
func (i iptables) Release(_ context.Context, p Plan) error { return p.writeLists("-") }

func (p Plan) writeLists(sign string) error {
	for _, f := range p.families() {
		file := filepath.Join(lists, p.confirmedList(f))
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

// loaded tells whether the kernel has any of the tables that the program would load to look into them.
func (i iptables) loaded(f family) bool {
	if i.program != ByIPTablesOnly {
		return true
	}
	file := map[family]string{ipv4: "ip_tables_names", ipv6: "ip6_tables_names"}[f]
	names, err := os.ReadFile(filepath.Join("/proc/thread-self/net", file))
	return err == nil && len(names) > 0
}

// counted is a rule that redirects, as iptables-save -c prints it.
var counted = regexp.MustCompile(`^\[(\d+):\d+\] -A (\S+) .*--comment "([^"]*)" -j (?:REDIRECT|TPROXY)`)

func (i iptables) State(ctx context.Context, p Plan) (State, error) {
	var s State
	sums := map[string]int{}
	for _, f := range usableFamilies() {
		if !i.loaded(f) {
			continue
		}
		text, err := call(ctx, "", i.named(f, "-save"), "-c")
		if err != nil {
			return s, err
		}
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			s.There = s.There || strings.HasPrefix(lines.Text(), ":"+strings.ToUpper(p.Table)+"_")
			found := counted.FindStringSubmatch(lines.Text())
			if found == nil || !strings.HasPrefix(found[2], strings.ToUpper(p.Table)+"_") {
				continue
			}
			n, _ := strconv.ParseUint(found[1], 10, 64)
			why := strings.ReplaceAll(found[3], `\'`, `'`)
			at, known := sums[why]
			if !known {
				at = len(s.Counted)
				sums[why] = at
				s.Counted = append(s.Counted, Counted{Why: why})
			}
			s.Counted[at].Count += n
		}
	}
	if s.There {
		s.By = i.program
	}
	return s, nil
}
