package mcp

import (
	"errors"
	"strconv"
)

// maxReordered bounds the responses that are kept for later. A server has at most one unanswered
// response of each type.
const maxReordered = 512

var (
	errOutOfTurn = errors.New("the responses of the server come in too much of a disorder")
	errMissing   = errors.New("a response of the server is missing, and others that came after it wait for it")
)

// handleInOrder processes the responses of a pgmesh server in the order in which it sent them. Its
// nonces count over all types of a stream, so a proxy that repeats or swaps messages cannot break a
// batch.
//
// Each response of another server is a whole state, and may come any number of times.
func (s *session) handleInOrder(r *response) error {
	nonce, err := strconv.ParseUint(r.nonce, 10, 64)
	if err != nil {
		return s.process(r)
	}
	if nonce <= s.lastNonce {
		return nil // a repetition, already answered
	}
	if len(s.reordered) == maxReordered {
		return errOutOfTurn
	}
	s.reordered[nonce] = r
	for next := s.reordered[s.lastNonce+1]; next != nil; next = s.reordered[s.lastNonce+1] {
		s.lastNonce++
		delete(s.reordered, s.lastNonce)
		if err := s.process(next); err != nil {
			return err
		}
		s.answerTimer.Reset(s.client.cfg.AnswerTimeout) // the next missing response gets the full timeout
	}
	return nil
}
