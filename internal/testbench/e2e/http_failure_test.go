package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASlowBackendIsGivenUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	slow := newBackend(t, "slow", func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		<-r.Context().Done() // until Envoy gives up
		return true
	})
	m.commit(m.service(reviews, slow), virtualService(reviews, `
http: [{timeout: 200ms, retries: {attempts: 0}, route: [{destination: {host: reviews.mesh}}]}]
`))
	m.listening()

	a := m.must(request{host: reviews})

	require.Equal(t, http.StatusGatewayTimeout, a.status)
	require.Greater(t, a.took, 150*time.Millisecond)
	require.Less(t, a.took, 2*time.Second)
}

func TestAFailedRequestIsTriedAgain(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	failing := func(times int) *backend {
		return newBackend(t, "v1", func(w http.ResponseWriter, _ *http.Request, before int) bool {
			if before < times {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return before < times
		})
	}
	persistent, patient, unlucky := failing(2), failing(2), failing(1)
	m.commit(
		m.service("patient.mesh", patient), virtualService("patient.mesh", `
http: [{retries: {attempts: 3, retryOn: 5xx, backoff: 1ms}, route: [{destination: {host: patient.mesh}}]}]`),
		m.service("hasty.mesh", persistent), virtualService("hasty.mesh", `
http: [{retries: {attempts: 1, retryOn: 5xx, backoff: 1ms}, route: [{destination: {host: hasty.mesh}}]}]`),
		m.service("never.mesh", unlucky), virtualService("never.mesh", `
http: [{retries: {attempts: 0}, route: [{destination: {host: never.mesh}}]}]`))
	m.listening()

	require.NoError(t, m.must(request{host: "patient.mesh"}).from("v1"))
	require.EqualValues(t, 3, patient.asked.Load())
	require.Equal(t, http.StatusInternalServerError, m.must(request{host: "hasty.mesh"}).status)
	require.EqualValues(t, 2, persistent.asked.Load())
	require.Equal(t, http.StatusInternalServerError, m.must(request{host: "never.mesh"}).status)
	require.EqualValues(t, 1, unlucky.asked.Load())
}

func TestFaultsAreInjected(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- match: [{uri: {prefix: /abort}}]
  fault: {abort: {httpStatus: 555, percentage: {value: 100}}}
  route: [{destination: {host: reviews.mesh}}]
- match: [{uri: {prefix: /delay}}]
  fault: {delay: {fixedDelay: 200ms, percentage: {value: 100}}}
  route: [{destination: {host: reviews.mesh}}]
- route: [{destination: {host: reviews.mesh}}]
`))
	m.listening()

	require.Equal(t, 555, m.must(request{host: reviews, path: "/abort"}).status)
	delayed := m.must(request{host: reviews, path: "/delay"})
	require.NoError(t, delayed.from("v1"))
	require.Greater(t, delayed.took, 150*time.Millisecond)
	require.NoError(t, m.must(request{host: reviews, path: "/"}).from("v1"))
}
