package legacy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// Sinks keeps a stream to each of its sinks, which come from several origins.
type Sinks struct {
	source *Source

	mu       sync.Mutex
	byOrigin map[string][]Sink // by origin, such as the flags or the table
	changed  chan struct{}
	reports  map[string]*sinkReport // by address
}

// NewSinks returns one without sinks.
func NewSinks(s *Source) *Sinks {
	return &Sinks{source: s, byOrigin: map[string][]Sink{}, changed: make(chan struct{}, 1), reports: map[string]*sinkReport{}}
}

// Set replaces the sinks of an origin. If two have one address, the one whose origin sorts first
// counts.
func (s *Sinks) Set(place string, sinks []Sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byOrigin[place] = sinks
	select {
	case s.changed <- struct{}{}:
	default: // a signal is waiting already
	}
}

// merged returns the sinks of all origins, by address.
func (s *Sinks) merged() map[string]Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Sink{}
	for _, place := range slices.Sorted(maps.Keys(s.byOrigin)) {
		for _, sink := range s.byOrigin[place] {
			if _, there := all[sink.Address]; !there {
				all[sink.Address] = sink
			}
		}
	}
	return all
}

// call is a running dialer.
type call struct {
	sink Sink
	stop func() // stops the dialer and waits for it
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
		wanted := s.merged()
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
		(&dialer{s.source, sink, s.source.cfg.Log.With("sink", sink.Address), report}).run(ctx)
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

// SinkState is the state of a sink that this server dials.
type SinkState struct {
	Address   string    `json:"address"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`           // when Connected last changed
	Error     string    `json:"error,omitempty"` // why it is not connected
}

// States lists the states of all sinks, by address.
func (s *Sinks) States() []SinkState {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := []SinkState{}
	for _, address := range slices.Sorted(maps.Keys(s.reports)) {
		states = append(states, s.reports[address].read())
	}
	return states
}

// sinkReport is a SinkState under construction.
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
	r.state.Error = terse.Kept(err.Error(), maxReasonBytes)
}

func (r *sinkReport) read() SinkState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
