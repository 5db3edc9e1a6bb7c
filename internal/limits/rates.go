package limits

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates has a limiter for each address that called lately.
type rates struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex
	of    map[string]*rate.Limiter
	sweep int // how many there may be before idle ones are dropped
}

// fewest is the number of addresses below which idle ones are not searched for.
const fewest = 1000

// newRates returns nil if there is no limit.
func newRates(limit float64, burst int) *rates {
	if limit <= 0 {
		return nil
	}
	return &rates{limit: rate.Limit(limit), burst: max(burst, 1), of: map[string]*rate.Limiter{}, sweep: fewest}
}

// neighbourhood is what counts as one address. For IPv6 it is the prefix that one customer is
// given: each customer has more addresses than could be counted.
func neighbourhood(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}

// take counts a call, or returns how long to wait before the next one.
func (r *rates) take(address string) time.Duration {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limiter(address)
	if l.Allow() {
		return 0
	}
	missing := 1 - l.Tokens()
	return max(time.Millisecond, time.Duration(missing/float64(r.limit)*float64(time.Second)))
}

// limiter returns that of an address. The caller holds the lock.
func (r *rates) limiter(address string) *rate.Limiter {
	l := r.of[address]
	if l == nil {
		r.forgetIdle()
		l = rate.NewLimiter(r.limit, r.burst)
		r.of[address] = l
	}
	return l
}

// limiterOf returns that of an address, or of another key that tells clients apart.
func (r *rates) limiterOf(address string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limiter(address)
}

// forgetIdle drops limiters that are full again. A new one would be the same.
func (r *rates) forgetIdle() {
	if len(r.of) < r.sweep {
		return
	}
	for address, l := range r.of {
		if l.Tokens() >= float64(r.burst) {
			delete(r.of, address)
		}
	}
	r.sweep = max(fewest, 2*len(r.of))
}
