package haproxycfg_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
)

func written(all []*haproxycfg.Section) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%d:%s%q{", s.Line, s.Kind, s.Args)
		for _, l := range s.From {
			fmt.Fprintf(&b, "%d:%q", l.Line, l.Words)
		}
		b.WriteString("}")
	}
	return b.String()
}

func TestSectionsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "",
		"# nothing\n\n":                 "",
		"defaults\n mode http # of web": `1:defaults[]{2:["mode" "http"]}`,
		"frontend web\n\tbind :80\n\nbackend a\n server s 10.0.0.1:80":     `1:frontend["web"]{2:["bind" ":80"]}4:backend["a"]{5:["server" "s" "10.0.0.1:80"]}`,
		"backend a\n http-request set-header X \"a b\" if { path /x\\ y }": `1:backend["a"]{2:["http-request" "set-header" "X" "a b" "if" "{" "path" "/x y" "}"]}`,
		"backend a\n acl p path_reg ^/a\\.b$ ''":                           `1:backend["a"]{2:["acl" "p" "path_reg" "^/a\\.b$" ""]}`,
	} {
		got, err := haproxycfg.Read("haproxy.cfg", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, written(got), text)
	}
	_, err := haproxycfg.Read("haproxy.cfg", []byte("defaults\n a 'b"))
	require.EqualError(t, err, "haproxy.cfg: line 2: a quotation does not end")
	_, err = haproxycfg.Read("haproxy.cfg", []byte("mode http"))
	require.ErrorContains(t, err, "haproxy.cfg: line 1: a line is in no section")
	_, err = haproxycfg.Read("haproxy.cfg", make([]byte, 9<<20))
	require.EqualError(t, err, "haproxy.cfg: there is more than 8 MB")
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"defaults\n a", "frontend a b\n c 'd' \"e\\\"\" \\ f # g", "x", "'"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := haproxycfg.Read("fuzz", text)
		require.True(t, err == nil || all == nil)
	})
}
