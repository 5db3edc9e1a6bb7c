package supervise

import (
	"context"
	"net/http"
)

// Ask asks Envoy's admin API. While an Envoy gets ready to take the place of another, that one answers.
func (s *Supervisor) Ask(ctx context.Context, path string) (string, error) {
	l := s.newest()
	if l == nil {
		return "", errNotStarted
	}
	answer, err := l.admin.ask(ctx, http.MethodGet, path)
	if before := s.predecessor(l); err != nil && before != nil {
		return before.admin.ask(ctx, http.MethodGet, path)
	}
	return answer, err
}
