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
	// connectTimeout bounds the attempt to connect to one replica.
	connectTimeout = 5 * time.Second
	// attemptDelay is how long an attempt may take before another replica is tried beside it.
	attemptDelay = 300 * time.Millisecond
	// resolveTimeout bounds a DNS lookup; after it the last answer is used.
	resolveTimeout = 2 * time.Second
)

// target is the address of one replica.
type target struct {
	configured string // host:port as configured
	address    string // IP:port
}

func (t target) String() string {
	if t.configured == t.address {
		return t.configured
	}
	return t.configured + " (" + t.address + ")"
}

// replicas lists the replicas to try. Only the goroutine that connects uses it.
type replicas struct {
	addresses  []string
	resolved   map[string][]target // the last answer for each name
	lastFailed target              // the replica that failed last
}

func newReplicas(addresses []string) *replicas {
	return &replicas{addresses: addresses, resolved: map[string][]target{}}
}

// failed puts a replica behind the others.
func (r *replicas) failed(t target) { r.lastFailed = t }

// order returns the replicas in the order to try, shuffled but for the one that failed last. The
// errors are of names with no address, now or before.
func (r *replicas) order(ctx context.Context) ([]target, []error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
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
			r.resolved[address] = found[i]
		} else if len(r.resolved[address]) == 0 {
			errs = append(errs, failed[i])
		}
		out = append(out, r.resolved[address]...)
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	slices.SortStableFunc(out, func(a, b target) int { return r.rank(a) - r.rank(b) })
	return out, errs
}

func (r *replicas) rank(t target) int {
	if t == r.lastFailed {
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
		return nil, fmt.Errorf("%w at %s: %s", ErrUnreachable, address, explainLookup(err))
	}
	var out []target
	for _, ip := range ips {
		out = append(out, target{address, net.JoinHostPort(ip.Unmap().String(), port)})
	}
	return out, nil
}

func explainLookup(err error) string {
	if notFound, ok := errors.AsType[*net.DNSError](err); ok && notFound.IsNotFound {
		return "nobody knows the name; is it written right, and does this machine ask the right name servers?"
	}
	return "the name could not be looked up: " + err.Error()
}

// connect tries all replicas. It starts the next attempt when one is slow or fails, and returns the
// first that succeeds. That one cancels the others, which are waited for: one may have succeeded
// all the same, and has to be closed.
func (u *Upstream) connect(ctx context.Context) (*link, error) {
	order, failed := u.replicas.order(ctx)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+time.Duration(len(order))*attemptDelay)
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
				break // out of the select
			}
			at := order[0]
			order = order[1:]
			running++
			next.Reset(attemptDelay)
			go func() {
				l, err := open(ctx, at, u.options.Credentials)
				outcomes <- outcome{l, err}
			}()
		case o := <-outcomes:
			running--
			switch {
			case o.err != nil:
				failed = append(failed, o.err)
				next.Reset(0) // a failure need not be waited for
			case won == nil:
				won = o.link
				cancel() // give up the other attempts
			default:
				o.close()
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, joinErrors(failed)
}

// joinErrors joins errors in an order that stays the same from one attempt to the next.
func joinErrors(failed []error) error {
	slices.SortFunc(failed, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	failed = slices.CompactFunc(failed, func(a, b error) bool { return a.Error() == b.Error() })
	if len(failed) == 1 {
		return failed[0]
	}
	return multiError(failed)
}

// multiError is why several replicas could not be connected to.
type multiError []error

func (s multiError) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s multiError) Unwrap() []error { return s }
