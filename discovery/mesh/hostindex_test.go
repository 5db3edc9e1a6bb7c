package mesh

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMostSpecificHostIsFound(t *testing.T) {
	t.Parallel()
	b := (&hostIndex[string]{}).edit()
	for _, host := range []string{"*", "*.com", "*.a.com", "x.a.com", "*.b.com"} {
		b.put(placeOf("here", host), host, false)
	}
	index := b.done()
	for host, want := range map[string]string{
		"x.a.com": "x.a.com", "y.a.com": "*.a.com", "y.c.com": "*.com", "org": "*", "*.a.com": "*.a.com", "*.z.a.com": "*.a.com",
	} {
		got, ok := index.find("here", host)
		require.True(t, ok)
		require.Equal(t, want, got, host)
	}
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		exportTo      []string
		own, neighbor bool
	}{
		{nil, true, true},
		{[]string{"*"}, true, true},
		{[]string{"."}, true, false},
		{[]string{"neighbor"}, false, true},
		{[]string{".", "neighbor"}, true, true},
		{[]string{"~"}, false, false},
	} {
		v := exported(c.exportTo, []string{"*"}, "own")
		require.Equal(t, c.own, v.includes("own"), "%v", c.exportTo)
		require.Equal(t, c.neighbor, v.includes("neighbor"), "%v", c.exportTo)
	}
}

func TestProtocolsAreReadInAnyCase(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Protocol{
		"http": ProtocolHTTP, "gRPC-web": ProtocolGRPCWeb, "HTTPS": ProtocolHTTPS, "mongo": ProtocolMongo, "": ProtocolSniffed, "quic": ProtocolSniffed,
	} {
		require.Equal(t, want, ParseProtocol(s), s)
	}
}
