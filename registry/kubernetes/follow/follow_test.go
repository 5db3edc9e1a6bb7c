package follow_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is an object of which nothing is kept but the version.
type thing struct {
	Metadata struct{ ResourceVersion string }
}

func (o thing) Version() string { return o.Metadata.ResourceVersion }

// heard is what a list has told.
type heard struct {
	all  chan int
	away chan string
}

func (h *heard) All(objects []thing) { h.all <- len(objects) }
func (h *heard) Changed(thing)       {}
func (h *heard) Gone(thing)          {}
func (h *heard) Away(err error) {
	if err == nil {
		return
	}
	select {
	case h.away <- err.Error():
	default:
	}
}

// following follows a list of a server that answers so, until the test ends.
func following(t *testing.T, answer http.HandlerFunc) *heard {
	t.Helper()
	server := httptest.NewServer(answer)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	access := func() *kubeconfig.Access { return &kubeconfig.Access{Server: at} }
	transport := client.NewTransport(access, time.Second)
	l := &follow.List[thing]{Client: &client.Client{Access: access, Transport: transport, Patience: 10 * time.Second}, Path: "/things"}
	h := &heard{all: make(chan int, 1000), away: make(chan string, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		transport.CloseIdleConnections()
		server.Close()
	})
	return h
}

// A list that does not end is no list.
func TestAListWithoutEnd(t *testing.T) {
	t.Parallel()
	h := following(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{}`)
		for err == nil {
			_, err = io.WriteString(w, `,{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}`)
		}
	})
	require.Equal(t, "the answer cannot be read: the list has more than 500000 objects", <-h.away)
	require.Empty(t, h.all)
}

// Nor is one whose pages go on for ever.
func TestPagesWithoutEnd(t *testing.T) {
	t.Parallel()
	h := following(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1","continue":"more"},"items":[]}`)
	})
	require.Equal(t, "the answer cannot be read: the list has more than 2000 pages", <-h.away)
	require.Empty(t, h.all)
}

const list = `{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"resourceVersion":"1"}}]}`

// A server that ends each watch at once, or never knows the version, is not asked all the time, and is
// not away.
func TestAServerThatTellsOfNothingIsAskedSeldom(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]string{"ends": "", "is outdated": `{"type":"ERROR","object":{"kind":"Status","code":410}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			fifth := make(chan time.Time, 1)
			h := following(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") == "" {
					_, _ = io.WriteString(w, list)
					return
				}
				if _, _ = io.WriteString(w, instead); asked.Add(1) == 5 {
					fifth <- time.Now()
				}
			})
			begun := time.Now()
			require.Equal(t, 1, <-h.all)
			require.Greater(t, (<-fifth).Sub(begun), 100*time.Millisecond)
			require.Empty(t, h.away)
		})
	}
}
