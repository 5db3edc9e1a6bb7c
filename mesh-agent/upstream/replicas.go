package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// attemptWithin is how long one replica may take to answer at all.
	attemptWithin = 5 * time.Second
	// overtakeAfter is how long it may take before another is tried beside it.
	overtakeAfter = 300 * time.Millisecond
	// resolveWithin is how long a name server may take; what it said last is used then.
	resolveWithin = 2 * time.Second
)

// target is one replica.
type target struct {
	said    string // as it was given: a name, and a port
	address string // an IP address, and the port
}

func (t target) String() string {
	if t.said == t.address {
		return t.said
	}
	return t.said + " (" + t.address + ")"
}

// replicas are those of discovery that there are to try.
type replicas struct {
	addresses []string
	known     map[string][]target // what names stood for last
	worst     target              // the one that failed last
}

func newReplicas(addresses []string) *replicas {
	return &replicas{addresses: addresses, known: map[string][]target{}}
}

// fell has a replica be tried after the others.
func (r *replicas) fell(t target) { r.worst = t }

// order is in which the replicas are to be tried. The errors are of names that stand for none.
func (r *replicas) order(ctx context.Context) ([]target, []error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	found, failed := make([][]target, len(r.addresses)), make([]error, len(r.addresses))
	var all sync.WaitGroup
	for i, address := range r.addresses {
		all.Go(func() { found[i], failed[i] = resolve(ctx, address) })
	}
	all.Wait()
	var out []target
	var errs []error
	for i, address := range r.addresses {
		if failed[i] == nil {
			r.known[address] = found[i]
		} else if len(r.known[address]) == 0 {
			errs = append(errs, failed[i])
		}
		out = append(out, r.known[address]...)
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	slices.SortStableFunc(out, func(a, b target) int { return r.rank(a) - r.rank(b) })
	return out, errs
}

func (r *replicas) rank(t target) int {
	if t == r.worst {
		return 1
	}
	return 0
}

func resolve(ctx context.Context, address string) ([]target, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []target{{address, address}}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %s", ErrUnreachable, address, unresolved(err))
	}
	var out []target
	for _, ip := range ips {
		out = append(out, target{address, net.JoinHostPort(ip.Unmap().String(), port)})
	}
	return out, nil
}

func unresolved(err error) string {
	if notFound, ok := errors.AsType[*net.DNSError](err); ok && notFound.IsNotFound {
		return "nobody knows the name; is it written right, and does this machine ask the right name servers?"
	}
	return "the name could not be looked up: " + err.Error()
}

// connect tries every replica. One that is slow is overtaken by the next, and the first that answers is taken.
func (u *Upstream) connect(ctx context.Context) (*link, error) {
	order, failed := u.replicas.order(ctx)
	ctx, cancel := context.WithTimeout(ctx, attemptWithin+time.Duration(len(order))*overtakeAfter)
	defer cancel()
	type outcome struct {
		*link

		err error
	}
	outcomes := make(chan outcome)
	running, next := 0, time.NewTimer(0)
	defer next.Stop()
	var won *link
	for running > 0 || len(order) > 0 && won == nil {
		select {
		case <-next.C:
			if len(order) == 0 || won != nil {
				break
			}
			at := order[0]
			order = order[1:]
			running++
			next.Reset(overtakeAfter)
			go func() {
				l, err := open(ctx, at, u.options.Credentials)
				outcomes <- outcome{l, err}
			}()
		case o := <-outcomes:
			running--
			switch {
			case o.err != nil:
				failed = append(failed, o.err)
				next.Reset(0)
			case won == nil:
				won = o.link
				cancel() // the others
			default:
				o.close()
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, together(failed)
}

// together is one error of several, in an order that does not change from one attempt to the next.
func together(failed []error) error {
	slices.SortFunc(failed, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	failed = slices.CompactFunc(failed, func(a, b error) bool { return a.Error() == b.Error() })
	if len(failed) == 1 {
		return failed[0]
	}
	return several(failed)
}

// several are why several replicas could not be connected to.
type several []error

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s several) Unwrap() []error { return s }
