package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// hashed is a mesh that sends requests to four backends by a hash.
func hashed(t *testing.T, hash string) *mesh {
	t.Helper()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "a", "b", "c", "d")...), balanced("{loadBalancer: {consistentHash: "+hash+"}}"))
	m.listening()
	return m
}

func TestACookieKeepsAClientWithItsBackend(t *testing.T) {
	t.Parallel()
	m := hashed(t, "{httpCookie: {name: home, ttl: 60s, path: /, attributes: [{name: SameSite, value: Strict}]}, maglev: {tableSize: 131}}")

	first := m.must(request{host: reviews})
	cookies := (&http.Response{Header: first.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, "home", cookies[0].Name)
	require.Equal(t, http.SameSiteStrictMode, cookies[0].SameSite)
	for range 10 {
		a := m.must(request{host: reviews, header: http.Header{"Cookie": {"home=" + cookies[0].Value}}})
		require.NoError(t, a.from(first.seen.Backend))
		require.Empty(t, a.header.Get("Set-Cookie"), "a client that has a home keeps it")
	}
}

func TestAQueryParameterDecides(t *testing.T) {
	t.Parallel()
	m := hashed(t, "{httpQueryParameterName: q, ringHash: {minimumRingSize: 512}}")
	require.NoError(t, m.oneHomeEach(t.Context(), func(key string) request { return request{host: reviews, path: "/?q=" + key} }))
}

func TestTheAddressOfTheClientDecides(t *testing.T) {
	t.Parallel()
	m := hashed(t, "{useSourceIp: true}")
	require.Len(t, m.spread(reviews, 20), 1, "all requests come from one address")
}

// oneHomeEach returns an error unless all requests with one key go to one backend, and not all keys
// to the same.
func (m *mesh) oneHomeEach(ctx context.Context, ask func(key string) request) error {
	homes := map[string]bool{}
	for key := range 20 {
		var home string
		for range 3 {
			a, err := m.ask(ctx, ask(strconv.Itoa(key)))
			if err != nil {
				return err
			}
			if home == "" {
				home = a.seen.Backend
			}
			if err := a.from(home); err != nil {
				return fmt.Errorf("a request of key %d: %w", key, err)
			}
		}
		homes[home] = true
	}
	if len(homes) < 2 {
		return fmt.Errorf("all keys go to %v", homes)
	}
	return nil
}
