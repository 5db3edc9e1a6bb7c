package mcp

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	unimplemented = status.Error(codes.Unimplemented, "unknown service")
	lost          = status.Error(codes.Unavailable, "gone")
	errOther      = errors.New("something else")
)

// Each step is how a stream ended and what is tried next, after a pause if that begins with one.
func TestProtocolAfterStreamEnd(t *testing.T) {
	t.Parallel()
	type step struct {
		end  error
		next Protocol
		once bool // at once
	}
	for name, steps := range map[string][]step{
		"a pgmesh server":             {{lost, Delta, false}, {errOther, Delta, false}},
		"without delta":               {{unimplemented, XDS, true}, {lost, XDS, false}, {lost, XDS, false}},
		"foreign with delta":          {{errForeign, XDS, true}, {lost, XDS, false}},
		"foreign with delta only":     {{errForeign, XDS, true}, {unimplemented, Delta, true}, {lost, Delta, false}, {errForeign, XDS, true}},
		"silent in delta":             {{errSilent, XDS, true}, {lost, XDS, false}},
		"pgmesh that was still empty": {{errSilent, XDS, true}, {errBetter, Delta, true}, {lost, Delta, false}},
		"delta lost on the way":       {{errSilent, XDS, true}, {errBetter, Delta, true}, {errSilent, XDS, true}, {lost, XDS, false}},
		"of the first generation":     {{unimplemented, XDS, true}, {unimplemented, Legacy, true}, {lost, Delta, false}},
		"something else altogether":   {{unimplemented, XDS, true}, {unimplemented, Legacy, true}, {unimplemented, Delta, false}},
		"upgraded to pgmesh":          {{errForeign, XDS, true}, {lost, XDS, false}, {errBetter, Delta, true}, {lost, Delta, false}},
	} {
		c := newChoice(Auto)
		require.Equal(t, Delta, c.next)
		for i, s := range steps {
			require.Equal(t, s.once, c.retryNow(s.end), "%s: step %d", name, i)
			require.Equal(t, s.next, c.next, "%s: step %d", name, i)
		}
	}
}

// A server with pgmesh's identifier that answers Unimplemented for delta, as behind a proxy, must
// not make the client alternate.
func TestProtocolDoesNotAlternate(t *testing.T) {
	t.Parallel()
	c := newChoice(Auto)
	require.True(t, c.retryNow(unimplemented))
	require.NoError(t, c.checkServer(true), "it was refused on this very server")
	require.False(t, c.retryNow(lost))
	require.ErrorIs(t, c.checkServer(true), errBetter, "what answers after a loss may be another")
	require.True(t, c.retryNow(errBetter))
	require.True(t, c.retryNow(unimplemented))
	require.NoError(t, c.checkServer(true))

	c = newChoice(Auto)
	require.True(t, c.retryNow(errSilent))
	require.True(t, c.retryNow(errBetter))
	require.True(t, c.retryNow(errSilent))
	require.NoError(t, c.checkServer(true), "it stayed silent twice")
}

func TestExplicitProtocolIsKept(t *testing.T) {
	t.Parallel()
	for _, wanted := range []Protocol{Delta, XDS, Legacy} {
		c := newChoice(wanted)
		for _, end := range []error{unimplemented, lost, errOther} {
			require.False(t, c.retryNow(end))
			require.Equal(t, wanted, c.next)
		}
		require.NoError(t, c.checkServer(true))
		require.NoError(t, c.checkServer(false))
	}
}

func TestProtocolIsAFlag(t *testing.T) {
	t.Parallel()
	for _, known := range Protocols() {
		var p Protocol
		require.NoError(t, p.Set(string(known)))
		require.Equal(t, known, p)
	}
	p := XDS
	require.EqualError(t, p.Set("rest"), `unknown protocol "rest", expected one of auto, xds, delta, legacy`)
	require.Equal(t, "xds", p.String())
	require.Equal(t, "protocol", p.Type())
}

func TestUnimplementedIsExplained(t *testing.T) {
	t.Parallel()
	s := &server{choice: newChoice(Auto)}
	require.EqualError(t, s.explain(unimplemented), "the server speaks no form of MCP: "+unimplemented.Error())
	require.Equal(t, codes.Unimplemented, status.Code(s.explain(unimplemented)))
	s = &server{choice: newChoice(Delta)}
	require.ErrorContains(t, s.explain(unimplemented), `does not speak MCP in the form "delta"`)
	require.Equal(t, lost, s.explain(lost))
}
