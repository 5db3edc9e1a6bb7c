package limits

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// StrangerOptions are the limits for callers without credentials. Zero means no limit.
type StrangerOptions struct {
	Rate  float64 // calls a second from one address
	Burst int
}

// Flags declares the flags.
func (o *StrangerOptions) Flags(f *pflag.FlagSet) {
	f.Float64Var(&o.Rate, "max-join-rate", 20,
		"how many certificates an address may ask for a second, on average, by tokens or with nothing to show; machines that renew theirs do not count; 0 for any number")
	f.IntVar(&o.Burst, "max-join-burst", 200, "how many of these it may ask for at once: machines behind one address may be set up together")
}

// Strangers limits callers without credentials, so that guessing costs nobody else anything.
type Strangers struct {
	limits  Limits
	options StrangerOptions
}

// NewStrangers returns the limit of one server.
func NewStrangers(o StrangerOptions, metrics prometheus.Registerer) *Strangers {
	s := &Strangers{options: o, limits: Limits{
		rates: newRates(o.Rate, o.Burst),
		exceeded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_limits_exceeded_total", Help: "Calls that were turned away, by the limit that they went over.",
		}, []string{"limit"}),
	}}
	metrics.MustRegister(s.limits.exceeded)
	return s
}

// Take counts a call. It refuses it if there were too many from its address.
func (s *Strangers) Take(ctx context.Context) error {
	address := addressOf(ctx)
	wait := s.limits.rates.take(neighbourhood(address))
	if wait <= 0 {
		return nil
	}
	return s.limits.refuse("joins", wait, fmt.Sprintf(
		"too many from %s ask for certificates without having one: at most %g a second, and %d at once (discovery's --max-join-rate, --max-join-burst)",
		address, s.options.Rate, s.options.Burst)).Err()
}
