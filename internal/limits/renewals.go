package limits

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// RenewalOptions are the limits for machines that renew their certificates. Zero means no limit.
type RenewalOptions struct {
	Rate  float64 // renewals a second of one machine
	Burst int
}

// Flags declares the flags.
func (o *RenewalOptions) Flags(f *pflag.FlagSet) {
	f.Float64Var(&o.Rate, "max-renew-rate", 0.2, "how many times a second a machine may renew its certificate, on average; 0 for any number")
	f.IntVar(&o.Burst, "max-renew-burst", 30, "how many times it may do so at once: an agent that is started again and again asks each time")
}

// Renewals limits the renewals of each machine, because each one is signed, and recorded for
// months.
type Renewals struct {
	limits  Limits
	options RenewalOptions
}

// NewRenewals returns the limit of one server.
func NewRenewals(o RenewalOptions, metrics prometheus.Registerer) *Renewals {
	r := &Renewals{options: o, limits: Limits{
		rates: newRates(o.Rate, o.Burst),
		exceeded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_renewals_exceeded_total", Help: "Renewals of certificates that were turned away, because their machine asks for too many.",
		}, []string{"limit"}),
	}}
	metrics.MustRegister(r.limits.exceeded)
	return r
}

// Take counts a renewal of a machine, by its enrolment. It refuses it if there were too many.
func (r *Renewals) Take(enrolment string) error {
	wait := r.limits.rates.take(enrolment)
	if wait <= 0 {
		return nil
	}
	return r.limits.refuse("renewals", wait, fmt.Sprintf("the machine %s renews its certificate too often: at most %g times a second, and %d at once (discovery's --max-renew-rate, --max-renew-burst)",
		enrolment, r.options.Rate, r.options.Burst)).Err()
}
