package push_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever asks whom resources concern does so while the mesh changes and proxies come and go.
func TestAudiencesAreAskedForWhileMuchHappens(t *testing.T) {
	t.Parallel()
	b, heard := newBench(), audiences{}
	b.apply(t, blamed+workload("one", "10.0.0.1"))
	happened := make(chan struct{}, 1)
	var asking sync.WaitGroup
	asking.Go(func() {
		for range happened {
			heard.hear(b.Audiences().Changed())
			b.Members()
		}
	})
	ips := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	for i := range 60 {
		b.apply(t, route("web", string(rune('a'+i%20))))
		b.apply(t, workload("two", ips[i%3]))
		s := b.passing(t, node(ips[i%2], []string{"shop", "bank"}[i%2]))
		select {
		case happened <- struct{}{}:
		default: // it is asking
		}
		if i%4 > 0 {
			s.Close()
		} else {
			t.Cleanup(s.Close)
		}
	}
	close(happened)
	asking.Wait()
	require.Empty(t, heard.wrong(b))
	require.NotEmpty(t, heard)
}
