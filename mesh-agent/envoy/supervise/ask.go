package supervise

import "context"

// Ask calls Envoy's admin API. While an Envoy starts to replace another, the old one answers.
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
