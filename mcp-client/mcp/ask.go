package mcp

import (
	"errors"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// errNothingToAsk is for a protocol that has no name for any of the kinds that are wanted.
var errNothingToAsk = errors.New("the server's form of the protocol carries none of the kinds that are asked for")

// subscribe asks for every kind, and for what only a pgmesh server knows: its standing, and the ends of batches.
func (s *session) subscribe() error {
	var left []string
	for _, k := range s.client.cfg.Kinds {
		names := s.wire.names(k)
		if len(names) == 0 {
			left = append(left, k.Name)
			continue
		}
		if err := s.ask(k, names[0]); err != nil {
			return err
		}
	}
	if len(s.asked) == 0 {
		return errNothingToAsk
	}
	if len(left) > 0 {
		s.client.cfg.Log.Info("the server cannot be asked for every kind; what there is of the others stays as it is",
			"server", s.at.target, "protocol", s.wire.protocol(), "without", strings.Join(left, ","))
	}
	if s.wire.protocol() == Legacy {
		return nil
	}
	if err := s.outbox.put(&request{typeURL: mcpv1.StandingTypeURL}); err != nil {
		return err
	}
	return s.outbox.put(&request{typeURL: mcpv1.BatchTypeURL})
}

// ask asks for a kind by one of its names. Nobody waits for the kinds without an envelope: Nacos never answers for them, and
// istiod does not wait for them either. Nor is a secret waited for: only a pgmesh server has any, and one that cannot tell leaves that unanswered.
func (s *session) ask(k *kinds.Kind, name string) error {
	r := &request{typeURL: name, held: s.state.held(k, name)}
	s.state.rank(k, s.wire.names(k))
	if len(s.asked) == 0 {
		r.node = s.client.node
	}
	q := &question{kind: k, awaited: !k.Bare && k != kinds.Secret}
	s.asked[name] = q
	if q.awaited {
		s.silent++
	}
	return s.outbox.put(r)
}

// heardOf notes that a question was answered, and asks by the other names of a kind that there is nothing of: an istiod up to
// 1.23 knows only the older version of each, and Nacos does to this day, and neither says so.
func (s *session) heardOf(q *question) error {
	if !q.answered {
		q.answered = true
		if q.awaited {
			s.silent--
		}
	}
	return s.askOthers(q.kind)
}

func (s *session) askOthers(k *kinds.Kind) error {
	names := s.wire.names(k)
	if s.pgmesh || !s.state.list(k, names[0]).empty() {
		return nil
	}
	for _, name := range names[1:] {
		if s.asked[name] != nil {
			continue
		}
		if err := s.ask(k, name); err != nil {
			return err
		}
		s.asked[name].optional = true
		s.patience.Reset(s.client.cfg.Patience)
	}
	return nil
}

// confirmed tells whether the server has spoken of a kind on this stream.
func (s *session) confirmed(k *kinds.Kind) bool {
	for _, name := range s.wire.names(k) {
		if q := s.asked[name]; q != nil && q.answered {
			return true
		}
	}
	return false
}

// forgetUnasked removes what is known only by names that this server was not asked for: it comes from a server, or a version
// of one, that had others.
func (s *session) forgetUnasked() {
	for _, k := range s.client.cfg.Kinds {
		if !s.confirmed(k) {
			continue
		}
		for _, l := range s.state.kinds[k].lists {
			if s.asked[l.name] != nil {
				continue
			}
			for name := range l.all() {
				s.state.remove(k, l, name)
			}
		}
	}
}

// impatient does something about a server that does not answer, or tells somebody.
func (s *session) impatient() error {
	if !s.heard && s.at.choice.probing() && s.wire.protocol() == Delta {
		return errSilent
	}
	if len(s.early) > 0 {
		return errMissing
	}
	unanswered, gaveUp := []string(nil), false
	for name, q := range s.asked {
		switch {
		case q.answered || !q.awaited:
		case q.optional: // it was worth a try
			q.awaited, gaveUp = false, true
			s.silent--
		default:
			unanswered = append(unanswered, name)
		}
	}
	if gaveUp {
		if err := s.deliverUnmarked(); err != nil {
			return err
		}
	}
	if len(unanswered) == 0 {
		return nil
	}
	slices.Sort(unanswered)
	s.client.change(func(st *Status) { st.Unanswered = unanswered })
	s.client.cfg.Log.Warn("the server leaves types unanswered; nothing that it sends is used before it has answered for all. "+
		"If it does not serve them, do not ask it for these kinds", "server", s.at.target, "types", strings.Join(unanswered, ","))
	return nil
}
