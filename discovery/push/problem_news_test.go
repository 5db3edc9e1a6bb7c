package push_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// standing has the problems of a bench as one knows them who only asks for news.
type standing struct {
	bench    *bench
	turn     uint64
	problems []push.Problem
}

// ask asks for news.
func (s *standing) ask() {
	all, turn, news := s.bench.ProblemsSince(s.turn)
	if s.turn = turn; news {
		s.problems = all
	}
}

// stale asks for news, and says how what is known then differs from the problems; "" if it does
// not.
func (s *standing) stale() string {
	s.ask()
	present, _ := s.bench.Problems()
	if slices.Equal(present, s.problems) {
		return ""
	}
	return fmt.Sprintf("problems are not told of as news:\nknows %v\n  has %v", s.problems, present)
}

func TestProblemsAreNewsOnce(t *testing.T) {
	t.Parallel()
	b := newBench()
	_, turn, news := b.ProblemsSince(0)
	require.False(t, news, "there is no mesh yet")
	b.apply(t, service+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: shop}
spec: {hosts: [x.example.com], http: [{delegate: {name: missing}}]}
`)
	all, turn, news := b.ProblemsSince(turn)
	require.True(t, news)
	require.Len(t, all, 1)
	_, again, news := b.ProblemsSince(turn)
	require.False(t, news)
	require.Equal(t, turn, again)
	b.proxy(t, "10.0.0.1", "shop")
	_, _, news = b.ProblemsSince(turn)
	require.True(t, news, "a proxy has come, which may have problems")
}

func TestASecretThatAProxyIsNotGivenIsNewsOnce(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	gate := &envoy{&corev3.Node{Id: "router~10.0.0.8~gate.shop~shop.svc.cluster.local"}, true}
	s, err := gate.open(t.Context(), b.listen(t))
	require.NoError(t, err)
	asks := func(names, no []string) { require.NoError(t, s.ask(push.SecretType, "", nil, nil, names, no, nil)) }
	known := standing{bench: b}
	denied := func(n int) func(context.Context) error {
		return func(context.Context) error {
			if known.ask(); len(known.problems) != n {
				return fmt.Errorf("%d problems are known, not %d", len(known.problems), n)
			}
			return nil
		}
	}
	asks([]string{"kubernetes://one"}, nil)
	poll.Eventually(t, denied(1))
	asks([]string{"kubernetes://other"}, nil)
	poll.Eventually(t, denied(2))
	asks(nil, []string{"kubernetes://one", "kubernetes://other"})
	poll.Eventually(t, denied(0))
}

// What people have queries on is written where they look.
func TestCodesOfProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	for code, name := range map[push.Code]string{
		push.NotAsWritten: "not-as-written", push.LeftOut: "left-out", push.PatchUnapplied: "patch-not-applied",
		push.SecretDenied: "secret-denied", push.KeysMissing: "keys-missing", push.Refused: "listener-refused",
	} {
		require.EqualValues(t, name, code, "a code keeps its name")
		require.Contains(t, string(page), "\n| `"+name+"` | ")
	}
}
