package issue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/rpc"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

const (
	// mostRecords is how many are kept while mcp-server is away: those of five days, if 10,000
	// machines renew every twelve hours.
	mostRecords = 100_000
	// batch is how many are sent in one call.
	batch = 500
	// sendWithin bounds an attempt, and the last one when discovery ends.
	sendWithin = 5 * time.Second
)

// records are those that mcp-server has not taken yet, the oldest first. Certificates are given
// without waiting for them. They are sent at once; those that come during a call go together into
// the next.
type records struct {
	server identityv1.AuthorityServiceClient // nil keeps none
	log    *slog.Logger
	lost   prometheus.Counter // counts dropped records: too many waited, or mcp-server refused them
	wake   chan struct{}      // wakes run; has room for one signal

	mu      sync.Mutex
	journal *journal            // nil if they are kept in memory only
	waiting []*identityv1.Issue // the oldest first
	first   uint64              // how many went before the first that waits
}

func newRecords(server identityv1.AuthorityServiceClient, folder string, log *slog.Logger, metrics prometheus.Registerer) *records {
	r := &records{
		server: server, log: log, wake: make(chan struct{}, 1),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_discovery_certificate_records_lost_total",
			Help: "Records of certificates that were dropped, the oldest first, because mcp-server was away for too long.",
		}),
	}
	metrics.MustRegister(r.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_certificate_records_waiting", Help: "Records of certificates that mcp-server has not taken yet.",
	}, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.waiting))
	}))
	if server != nil {
		r.open(folder)
	}
	return r
}

// open takes over what discovery did not send before it last ended.
func (r *records) open(folder string) {
	var err error
	if r.journal, r.waiting, err = openJournal(folder); err != nil {
		r.log.Error("records of certificates are not kept over a restart", "folder", folder, "error", err)
		r.journal = nil
	}
	if len(r.waiting) > 0 {
		r.log.Info("records of certificates from before the start wait for mcp-server", "waiting", len(r.waiting))
	}
}

// add keeps a record, and has it sent.
func (r *records) add(record *identityv1.Issue) {
	if r.server == nil {
		return
	}
	r.mu.Lock()
	if len(r.waiting) == mostRecords {
		r.waiting[0] = nil
		r.waiting, r.first = r.waiting[1:], r.first+1
		r.lost.Inc()
	}
	r.waiting = append(r.waiting, record)
	r.kept(r.journal.add(record))
	if r.journal.outgrown() {
		r.kept(r.journal.keep(r.waiting))
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // whoever is woken takes all
	}
}

// run sends records until the context ends.
func (r *records) run(ctx context.Context) error {
	sending := retry.Loop{
		Pauses: retry.Pauses{First: 500 * time.Millisecond, Longest: 30 * time.Second},
		Failed: func(err error, _ time.Duration) {
			r.log.Warn("records of certificates wait for mcp-server", "waiting", r.len(), "error", err)
		},
	}
	for {
		if err := sending.Until(ctx, func() error { return r.send(ctx) }); err != nil {
			return err
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush sends what is left when discovery ends.
func (r *records) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin)
	defer cancel()
	err := r.send(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.journal.close()
	if err != nil {
		if r.journal == nil {
			r.log.Error("records of certificates are lost: mcp-server does not take them", "records", len(r.waiting), "error", err)
			return
		}
		r.log.Warn("records of certificates are kept for the next start: mcp-server does not take them", "records", len(r.waiting), "error", err)
	}
}

func (r *records) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// send sends all waiting records.
func (r *records) send(ctx context.Context) error {
	for {
		some, first := r.next()
		if len(some) == 0 {
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, sendWithin)
		_, err := rpc.Again(func() (*identityv1.RecordResponse, error) { // repeating is safe: each record counts once
			return r.server.Record(attempt, &identityv1.RecordRequest{Issues: some})
		})
		cancel()
		if status.Code(err) == codes.InvalidArgument { // it will never take these, and others wait
			r.log.Error("mcp-server cannot read records of certificates, which are dropped", "records", len(some), "error", err)
			r.lost.Add(float64(len(some)))
		} else if err != nil {
			return errors.Join(err, ctx.Err())
		}
		r.taken(first + uint64(len(some)))
	}
}

func (r *records) next() (some []*identityv1.Issue, first uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(some, r.waiting[:min(batch, len(r.waiting))]...), r.first
}

// taken drops the records before a number. Some of them may have been dropped meanwhile.
func (r *records) taken(before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before <= r.first {
		return
	}
	n := min(before-r.first, uint64(len(r.waiting)))
	clear(r.waiting[:n])
	r.waiting, r.first = r.waiting[n:], r.first+n
	if len(r.waiting) == 0 { // records that were sent in part are sent again after a restart, and count once
		r.kept(r.journal.keep(nil))
	}
}

// kept gives the journal up if it cannot be written. What waits is in memory, too.
func (r *records) kept(err error) {
	if err != nil {
		r.log.Error("records of certificates are not kept over a restart any more", "error", err)
		r.journal.close()
		r.journal = nil
	}
}
