package tokens_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// gate is a source that counts how often it is asked, and can be shut.
type gate struct {
	*callers.Store

	mu    sync.Mutex
	asked int
	err   error
}

func (g *gate) Tokens(ctx context.Context) ([]callers.Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if g.err != nil {
		return nil, g.err
	}
	return g.Store.Tokens(ctx)
}

func (g *gate) shut(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func open(t *testing.T) (*tokens.Cache, *gate) {
	t.Helper()
	s, err := store.Open(t.Context(), pgtest.New(t), store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	g := &gate{Store: callers.New(s)}
	return tokens.New(g, slog.New(slog.DiscardHandler)), g
}

func (g *gate) create(t *testing.T, name string) caller.TokenHash {
	t.Helper()
	secret, _, err := tokens.Create(t.Context(), g.Store, name, []string{"read"}, time.Time{}, "")
	require.NoError(t, err)
	return caller.HashOf(secret)
}

func TestATokenIsKnownAsSoonAsItIsMade(t *testing.T) {
	t.Parallel()
	b, g := open(t)
	_, err := b.Held(caller.HashOf("x"))
	require.ErrorContains(t, err, "they are not read yet")
	first := g.create(t, "first")
	found, err := b.Find(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, "first", found.Name)
	_, err = b.Find(t.Context(), caller.HashOf("nobody's"))
	require.ErrorIs(t, err, caller.ErrUnknownToken)
	second := g.create(t, "second")
	_, err = b.Find(t.Context(), second)
	require.NoError(t, err, "readings are paced, and whoever comes in between waits for the next")
}

func TestUnknownTokensDoNotBurdenTheDatabase(t *testing.T) {
	t.Parallel()
	b, g := open(t)
	var crowd sync.WaitGroup
	began := time.Now()
	for range 200 {
		crowd.Go(func() {
			_, err := b.Find(t.Context(), caller.HashOf(caller.NewSecret()))
			if !errors.Is(err, caller.ErrUnknownToken) {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.LessOrEqual(t, g.asked, 2+int(time.Since(began)/(100*time.Millisecond)))
}

func TestTokensOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	b, g := open(t)
	g.shut(errors.New("it is away"))
	_, err := b.Find(t.Context(), caller.HashOf("x"))
	require.ErrorContains(t, err, "it is away", "nobody can tell")
	g.shut(nil)
	known := g.create(t, "known")
	_, err = b.Find(t.Context(), known)
	require.NoError(t, err)
	g.shut(errors.New("it is away"))
	b.Read(t.Context())
	_, err = b.Held(known)
	require.NoError(t, err)
}

func TestUseIsNoted(t *testing.T) {
	t.Parallel()
	b, g := open(t)
	known := g.create(t, "known")
	_, err := b.Find(t.Context(), known)
	require.NoError(t, err)
	b.Used(known)
	b.Used(caller.HashOf("nobody's"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Run(ctx), context.Canceled)
	list, err := g.Store.Tokens(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), list[0].Used, 2*time.Minute)
}
