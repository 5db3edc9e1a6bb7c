package legacy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/terse"
)

// Sinks keeps a stream to each of the sinks that it is given, from several places.
type Sinks struct {
	source *Source

	mu      sync.Mutex
	given   map[string][]Sink // by the place that they come from
	changed chan struct{}
	reports map[string]*sinkReport // by address
}

// NewSinks returns one without sinks.
func NewSinks(s *Source) *Sinks {
	return &Sinks{source: s, given: map[string][]Sink{}, changed: make(chan struct{}, 1), reports: map[string]*sinkReport{}}
}

// Set replaces the sinks that come from a place. Of two with one address that of the place counts whose name comes first.
func (s *Sinks) Set(place string, sinks []Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[place] = sinks
	select {
	case s.changed <- struct{}{}:
	default: // a wake-up is already waiting, and will find these
	}
}

// wanted has the sinks by address.
func (s *Sinks) wanted() map[string]Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Sink{}
	for _, place := range slices.Sorted(maps.Keys(s.given)) {
		for _, sink := range s.given[place] {
			if _, there := all[sink.Address]; !there {
				all[sink.Address] = sink
			}
		}
	}
	return all
}

// call is a caller that runs.
type call struct {
	sink Sink
	stop func() // returns when it has ended
}

// Run dials until the context ends.
func (s *Sinks) Run(ctx context.Context) error {
	calls := map[string]call{}
	defer func() {
		for address := range calls {
			s.end(calls, address)
		}
	}()
	for {
		wanted := s.wanted()
		for address, c := range calls {
			if sink, there := wanted[address]; !there || !sink.equal(c.sink) {
				s.end(calls, address)
			}
		}
		for address, sink := range wanted {
			if _, there := calls[address]; !there {
				calls[address] = s.begin(ctx, sink)
			}
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Sinks) begin(ctx context.Context, sink Sink) call {
	ctx, cancel := context.WithCancel(ctx)
	report := &sinkReport{state: SinkState{Address: sink.Address, Since: time.Now()}}
	s.mu.Lock()
	s.reports[sink.Address] = report
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&caller{s.source, sink, s.source.cfg.Log.With("sink", sink.Address), report}).run(ctx)
	}()
	return call{sink, func() { cancel(); <-ended }}
}

func (s *Sinks) end(calls map[string]call, address string) {
	calls[address].stop()
	delete(calls, address)
	s.source.metrics.forget(address)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reports, address)
}

// SinkState tells how a sink is served that this server dials.
type SinkState struct {
	Address   string    `json:"address"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`           // when that became so
	Error     string    `json:"error,omitempty"` // why it is not connected
}

// States tells of all sinks, by address.
func (s *Sinks) States() []SinkState {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := []SinkState{}
	for _, address := range slices.Sorted(maps.Keys(s.reports)) {
		states = append(states, s.reports[address].read())
	}
	return states
}

// sinkReport is a SinkState that is being written.
type sinkReport struct {
	mu    sync.Mutex
	state SinkState
}

func (r *sinkReport) connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.state.Connected {
		r.state.Connected, r.state.Since, r.state.Error = true, time.Now(), ""
	}
}

func (r *sinkReport) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Connected {
		r.state.Connected, r.state.Since = false, time.Now()
	}
	r.state.Error = terse.Kept(err.Error(), longestReason)
}

func (r *sinkReport) read() SinkState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
