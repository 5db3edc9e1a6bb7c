package inspect

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// shownQueue is what is on its way to proxies, and what has gone.
type shownQueue struct {
	Known   string     `json:"known"`  // the newest revision that came
	Pushed  string     `json:"pushed"` // the newest that all proxies were offered
	Waiting int        `json:"waiting"`
	Since   *time.Time `json:"since,omitempty"`   // when the oldest waiting batch came
	Current *shownPush `json:"current,omitempty"` // what is being pushed

	Proxies int            `json:"proxies"`
	Behind  []*shownBehind `json:"behind"` // the furthest first
	Limits  []shownLimit   `json:"limits"`
	Pushes  []shownPush    `json:"pushes"` // the newest first
}

// shownLimit is a limit on proxies, and how often it was reached.
type shownLimit struct {
	Limit      string  `json:"limit"`
	Value      float64 `json:"value"` // 0 means none
	HeldBack   int     `json:"held_back"`
	Seconds    float64 `json:"seconds"` // how long those held back had to wait
	TurnedAway int     `json:"turned_away"`
}

// shownBehind is a proxy that has not accepted everything that it should have.
type shownBehind struct {
	Proxy    string       `json:"proxy"`
	Revision string       `json:"revision,omitempty"` // the one that it is being brought to
	Newest   string       `json:"newest,omitempty"`
	Stage    *shownStage  `json:"stage,omitempty"`
	Seconds  float64      `json:"seconds"` // since the message that it has not answered, or since this stage began
	Types    []behindType `json:"types"`
}

type behindType struct {
	Type   string `json:"type"`
	Status status `json:"status"`
}

type shownPush struct {
	Revision  string      `json:"revision"`
	Batches   int         `json:"batches"`
	Changes   int         `json:"changes"`
	Committed *time.Time  `json:"committed,omitempty"`
	Arrived   *time.Time  `json:"arrived,omitempty"`
	Begun     time.Time   `json:"begun"`
	Seconds   float64     `json:"seconds"`
	Proxies   int         `json:"proxies"` // that it had something new for
	Work      []shownWork `json:"translated"`

	Messages int     `json:"messages"`
	Bytes    int     `json:"bytes"`
	Acks     int     `json:"acks"`
	Nacks    int     `json:"nacks"`
	LastAck  float64 `json:"last_ack_seconds,omitempty"` // after it arrived
}

// shownWork is what was translated of a type.
type shownWork struct {
	Type      string  `json:"type"`
	Seconds   float64 `json:"seconds"`
	Resources int     `json:"resources"`
	Bytes     int     `json:"bytes"`
}

func (i *Inspector) pushPage(*http.Request) (any, error) {
	queue, last := i.Engine.Pushes()
	all := i.clients()
	shown := shownQueue{
		Known: queue.Known, Pushed: queue.Pushed, Waiting: queue.Waiting, Since: known(queue.Since), Proxies: len(all),
		Behind: behind(all, time.Now()), Limits: i.limits(), Pushes: make([]shownPush, len(last)),
	}
	if queue.Current != nil {
		now := showPush(*queue.Current)
		shown.Current = &now
	}
	for n, p := range last {
		shown.Pushes[n] = showPush(p)
	}
	return shown, nil
}

func (i *Inspector) limits() (all []shownLimit) {
	for _, l := range []struct {
		name  string
		value float64
	}{
		{ads.PushLimit, float64(i.Limits.Pushes)},
		{ads.ArrivalLimit, i.Limits.Arrivals},
		{ads.RequestLimit, i.Limits.Requests},
		{ads.NameLimit, float64(i.Limits.Names)},
		{ads.MemoryLimit, float64(i.Limits.Memory)},
		{ads.RepeatLimit, i.Limits.Again},
	} {
		r := i.Engine.Reached(l.name)
		all = append(all, shownLimit{l.name, l.value, r.Times, r.Waited.Seconds(), r.TurnedAway})
	}
	return all
}

// known is a time for JSON; nil if it is zero.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func showPush(p push.Push) shownPush {
	shown := shownPush{
		Revision: p.Revision, Batches: p.Batches, Changes: p.Changes, Committed: known(p.Committed), Arrived: known(p.Arrived), Begun: p.Begun,
		Seconds: p.Took.Seconds(), Proxies: p.Proxies, Work: []shownWork{},
		Messages: p.Messages, Bytes: p.Bytes, Acks: p.Acks, Nacks: p.Nacks, LastAck: p.LastAck.Seconds(),
	}
	for _, w := range p.Work {
		shown.Work = append(shown.Work, shownWork{nameOfType(w.TypeURL), w.Took.Seconds(), w.Resources, w.Bytes})
	}
	return shown
}

// behind lists the proxies that have not accepted everything that they should have, the one that
// waits longest first.
func behind(all []client, now time.Time) []*shownBehind {
	list := []*shownBehind{}
	for _, c := range all {
		p := c.show()
		if p.Current || c.snapshot == nil {
			continue
		}
		b := &shownBehind{Proxy: p.Proxy, Revision: p.Revision, Newest: p.Newest, Stage: p.Stage, Seconds: now.Sub(p.waits()).Seconds()}
		for _, t := range p.Types {
			if t.Status != synced {
				b.Types = append(b.Types, behindType{t.Type, t.Status})
			}
		}
		list = append(list, b)
	}
	slices.SortStableFunc(list, func(a, b *shownBehind) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return list
}

// waits returns since when a proxy is behind, if that is known.
func (p *shownProxy) waits() time.Time {
	since := p.Connected
	if p.Stage != nil {
		since = p.Stage.Since
	}
	for _, t := range p.Types {
		switch {
		case t.Status == nacked:
			since = t.Nacked.At
		case t.Pending:
			return t.Sent.At
		}
	}
	return since
}
