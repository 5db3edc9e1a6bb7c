package mcp

import (
	"errors"
	"strconv"
)

// mostEarly bounds what is kept until its turn comes. A server has one unanswered response of a type at most.
const mostEarly = 512

var (
	errOutOfTurn = errors.New("the responses of the server come in too much of a disorder")
	errMissing   = errors.New("a response of the server is missing, and others that came after it wait for it")
)

// inOrder takes in what a pgmesh server sends in the order in which it was sent. Its nonces count, over all types of a stream:
// so whatever carries its messages may say one twice, or swap two, and a batch is whole all the same.
//
// Of other servers each response is the whole state of something, which may come any number of times.
func (s *session) inOrder(r *response) error {
	nonce, err := strconv.ParseUint(r.nonce, 10, 64)
	if err != nil {
		return s.understand(r)
	}
	if nonce <= s.turn {
		return nil // it came before, and was answered
	}
	if len(s.early) == mostEarly {
		return errOutOfTurn
	}
	s.early[nonce] = r
	for next := s.early[s.turn+1]; next != nil; next = s.early[s.turn+1] {
		s.turn++
		delete(s.early, s.turn)
		if err := s.understand(next); err != nil {
			return err
		}
		s.patience.Reset(s.client.cfg.Patience) // what is missing is missed from here on
	}
	return nil
}
