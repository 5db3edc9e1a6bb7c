package saved

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// Options of a Keeper. For the fields after Keys, zero is right for production.
type Options struct {
	Folder string
	// Places are where the source reads from. A file from none of these is not served.
	Places []string
	// Keys seal the secrets in the file. With seal.None, secrets are not saved.
	Keys *seal.Keys
	// SilenceTimeout is how long a starting source may make no progress before the saved state is
	// served; 3 s if 0.
	SilenceTimeout time.Duration
	// WriteDelay is how long after a change the file is written; 500 ms if 0. MinInterval is the
	// least time between two writes; 5 s if 0.
	WriteDelay, MinInterval time.Duration
}

// pauseFactor makes the pause after a write this many times as long as the write.
const pauseFactor = 20

// Keeper saves what a publisher serves, and has it served if the source is away at the start.
type Keeper struct {
	folder    folder
	publisher *publish.Publisher
	log       *slog.Logger
	options   Options
	written   fileState // what the file has
	failure   string    // the last error; "" after a success
	metrics   metrics
}

// fileState identifies the state in the file.
type fileState struct {
	mesh string
	mark string
	ok   bool
}

// New returns a keeper, and primes the publisher with the saved state. Start the source after that.
func New(p *publish.Publisher, log *slog.Logger, registry prometheus.Registerer, o Options) *Keeper {
	if o.SilenceTimeout == 0 {
		o.SilenceTimeout = 3 * time.Second
	}
	if o.WriteDelay == 0 {
		o.WriteDelay = 500 * time.Millisecond
	}
	if o.MinInterval == 0 {
		o.MinInterval = 5 * time.Second
	}
	k := &Keeper{
		folder: folder{path: o.Folder, places: o.Places, keys: o.Keys}, publisher: p, log: log, options: o, metrics: newMetrics(registry),
	}
	k.prime()
	return k
}

func (k *Keeper) prime() {
	k.folder.clean()
	s, err := k.folder.load()
	switch {
	case err != nil:
		k.logUnusable(err)
	case s != nil:
		k.publisher.Prime(s)
		k.written = fileState{s.Mesh, s.Mark(), true}
		k.metrics.saved(s)
	}
}

// Run keeps the file up to date until the context ends, and saves once more then.
func (k *Keeper) Run(ctx context.Context) error {
	news := k.publisher.Subscribe()
	defer news.Close()
	defer k.save()
	k.await(ctx)
	for ctx.Err() == nil {
		select {
		case <-news.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
		wait.For(ctx, k.options.WriteDelay)
		for ctx.Err() == nil {
			began := time.Now()
			saved := k.save()
			wait.For(ctx, max(k.options.MinInterval, pauseFactor*time.Since(began)))
			if saved {
				break
			}
		}
	}
	return ctx.Err()
}

// await waits until the source delivers something. If the source is lost, or makes no progress for
// too long, await has the saved state served. It must not be served earlier: the source may have
// something newer, and clients would go back and forth.
func (k *Keeper) await(ctx context.Context) {
	for {
		silent := time.Until(k.publisher.LastAlive().Add(k.options.SilenceTimeout))
		if silent <= 0 {
			break
		}
		timer := time.NewTimer(silent)
		select {
		case <-timer.C:
			continue // the source may have made progress meanwhile
		case <-k.publisher.FirstResult():
		case <-ctx.Done():
		}
		timer.Stop()
		break
	}
	if ctx.Err() == nil && k.publisher.Resume() {
		s := k.publisher.State()
		k.log.Warn("the source cannot be read: serving what was saved, until it can",
			"revision", s.At.Revision, "resources", s.Len(), "saved", s.AsOf, "error", k.publisher.Source().Err)
	}
}

// save writes the file unless it has the current state, and reports whether it has it now.
func (k *Keeper) save() bool {
	s := k.publisher.State()
	if s == nil || k.written == (fileState{s.Mesh, s.Mark(), true}) {
		return true
	}
	began := time.Now()
	if err := k.folder.save(s); err != nil {
		k.metrics.failures.Inc()
		if k.failure != err.Error() { // log a repeated error once
			k.failure = err.Error()
			k.log.Error("cannot save what is served: a server that starts while its source is away will have what was saved before, or nothing. "+
				"See to --state-dir", "folder", k.folder.path, "error", err)
		}
		return false
	}
	k.written, k.failure = fileState{s.Mesh, s.Mark(), true}, ""
	k.metrics.saved(s)
	k.metrics.duration.Observe(time.Since(began).Seconds())
	return true
}
