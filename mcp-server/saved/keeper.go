package saved

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/wait"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/seal"
)

// Options of a Keeper. The zero value of what comes after Folder and Places is right for production.
type Options struct {
	Folder string
	// Places are those that the source reads from: what was read from none of them is not served.
	Places []string
	// Keys seal the secrets in the file. Without, there are none in it.
	Keys *seal.Keys
	// Silence is how long a source may say nothing at the start before what was saved is served; 3 s if 0.
	Silence time.Duration
	// Settle is how long after a change the file is written; 500 ms if 0. Pause is the least time between two files; 5 s if 0.
	Settle, Pause time.Duration
}

// share bounds the part of the time that is spent on writing files.
const share = 20

// Keeper keeps what a publisher serves in a file, and has it served while the source is away at the start.
type Keeper struct {
	folder    folder
	publisher *publish.Publisher
	log       *slog.Logger
	options   Options
	written   written
	failure   string // the last one, "" after a success
	metrics   metrics
}

// written tells which state the file has.
type written struct {
	mesh string
	at   publish.Position
	ok   bool
}

// New returns the keeper of a publisher, which is primed with what was saved. The source should be started after that.
func New(p *publish.Publisher, log *slog.Logger, registry prometheus.Registerer, o Options) *Keeper {
	if o.Silence == 0 {
		o.Silence = 3 * time.Second
	}
	if o.Settle == 0 {
		o.Settle = 500 * time.Millisecond
	}
	if o.Pause == 0 {
		o.Pause = 5 * time.Second
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
		k.refused(err)
	case s != nil:
		k.publisher.Prime(s)
		k.written = written{s.Mesh, s.At, true}
		k.metrics.saved(s)
	}
}

// Run keeps the file until the context ends, and brings it up to date then.
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
		wait.For(ctx, k.options.Settle)
		for ctx.Err() == nil {
			began := time.Now()
			saved := k.save()
			wait.For(ctx, max(k.options.Pause, share*time.Since(began)))
			if saved {
				break
			}
		}
	}
	return ctx.Err()
}

// await returns when the source has said something. If that is that it is lost, or if it says nothing for too long, what was saved is
// served. Before, it must not be: the source may have something newer, and clients would go back and forth.
func (k *Keeper) await(ctx context.Context) {
	for {
		silent := time.Until(k.publisher.LastSign().Add(k.options.Silence))
		if silent <= 0 {
			break
		}
		timer := time.NewTimer(silent)
		select {
		case <-timer.C:
			continue // there may have been a sign of life meanwhile
		case <-k.publisher.Heard():
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

// save writes the file, if what is served is not what it has, and tells whether it has that now.
func (k *Keeper) save() bool {
	s := k.publisher.State()
	if s == nil || k.written == (written{s.Mesh, s.At, true}) {
		return true
	}
	began := time.Now()
	if err := k.folder.save(s); err != nil {
		k.metrics.failures.Inc()
		if k.failure != err.Error() { // the same failure over and over is said once
			k.failure = err.Error()
			k.log.Error("cannot save what is served: a server that starts while its source is away will have what was saved before, or nothing. "+
				"See to --state-dir", "folder", k.folder.path, "error", err)
		}
		return false
	}
	k.written, k.failure = written{s.Mesh, s.At, true}, ""
	k.metrics.saved(s)
	k.metrics.duration.Observe(time.Since(began).Seconds())
	return true
}
