package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// balanced is a DestinationRule with a traffic policy.
func balanced(policy string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews.mesh
  trafficPolicy: %s
`, policy)
}

func TestRequestsAreBalanced(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "a", "b", "c", "d")...), balanced("{loadBalancer: {simple: ROUND_ROBIN}}"))
	m.listening()
	require.Equal(t, map[string]int{"a": 10, "b": 10, "c": 10, "d": 10}, m.spread(reviews, 40))

	m.commit(balanced("{loadBalancer: {consistentHash: {httpHeaderName: user}}}"))

	// Each user always gets the same backend, and not all users get the same one.
	eventually(t, func(ctx context.Context) error {
		homes := map[string]bool{}
		for user := range 20 {
			home, err := m.home(ctx, strconv.Itoa(user))
			if err != nil {
				return err
			}
			homes[home] = true
		}
		if len(homes) < 2 {
			return fmt.Errorf("all users are sent to %v", homes)
		}
		return nil
	})
}

// home is the backend that a user's requests go to.
func (m *mesh) home(ctx context.Context, user string) (string, error) {
	var first string
	for range 5 {
		a, err := m.ask(ctx, request{host: reviews, header: http.Header{"User": {user}}})
		if err != nil {
			return "", err
		}
		if first == "" {
			first = a.seen.Backend
		}
		if err := a.from(first); err != nil {
			return "", fmt.Errorf("a request of user %s: %w", user, err)
		}
	}
	return first, nil
}

func TestAFailingEndpointIsEjected(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	broken := newBackend(t, "broken", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	m.commit(m.service(reviews, broken, newBackend(t, "sound", nil)), balanced(`
    loadBalancer: {simple: ROUND_ROBIN}
    outlierDetection: {consecutive5xxErrors: 3, interval: 1s, baseEjectionTime: 60s, maxEjectionPercent: 50}
`))
	m.listening()

	failed, sound := 0, 0
	for range 200 { // they take turns, so ten good answers in a row are no chance
		if m.must(request{host: reviews}).status != http.StatusOK {
			failed, sound = failed+1, 0
		} else if sound++; sound == 10 {
			break
		}
	}
	require.GreaterOrEqual(t, failed, 3, "Envoy counts three, and then takes a moment")
	require.Equal(t, 10, sound, "the endpoint was not ejected")
	require.Equal(t, map[string]int{"sound": 10}, m.spread(reviews, 10))
	require.EqualValues(t, failed, broken.asked.Load())
}
