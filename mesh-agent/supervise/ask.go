package supervise

import "context"

// Ask asks Envoy's admin API. While an Envoy gets ready to take the place of another, that one answers.
func (s *Supervisor) Ask(ctx context.Context, path string) (string, error) {
	l := s.newest()
	if l == nil {
		return "", errNotStarted
	}
	answer, err := l.admin.get(ctx, path)
	if before := s.predecessor(l); err != nil && before != nil {
		return before.admin.get(ctx, path)
	}
	return answer, err
}
