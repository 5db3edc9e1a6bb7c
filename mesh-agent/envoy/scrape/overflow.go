package scrape

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
)

// overflowPrefix begins the names under which Envoy counts what it could not count, because there
// were as many series of the standard metrics as there may be.
const overflowPrefix = "envoy_server_stats_overflow_"

// overflow tells when Envoy begins to leave out series.
type overflow struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]float64
}

// seen looks at a sample of Envoy's own.
func (o *overflow) seen(name string, value []byte) {
	what, is := strings.CutPrefix(name, overflowPrefix)
	if !is {
		return
	}
	now, err := strconv.ParseFloat(string(value), 64)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil && now > o.last[what] && o.last[what] == 0 {
		o.log.Warn("Envoy has as many series of the standard metrics as it may have, and leaves out others: remove tags with many values by a Telemetry",
			"kind", what, "name", name)
	}
	if o.last == nil {
		o.last = map[string]float64{}
	}
	o.last[what] = now
}
