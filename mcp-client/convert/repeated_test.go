package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// What a file says at many places is told once, with how many there are and where.
func TestWhatIsRepeatedIsToldOnce(t *testing.T) {
	t.Parallel()
	conf := func(locations int) string {
		var b strings.Builder
		b.WriteString("server {\n listen 80;\n proxy_set_header Host $host;\n")
		for i := range locations {
			fmt.Fprintf(&b, " location /%d/ { client_max_body_size 1m; limit_req zone=a; proxy_pass http://10.0.0.1; }\n", i)
		}
		return b.String() + "}\n"
	}
	cfg := func(servers int) string {
		var b strings.Builder
		b.WriteString("defaults\n mode http\nfrontend a\n bind :80\n default_backend b\nbackend b\n")
		for i := range servers {
			fmt.Fprintf(&b, " server s%d 10.0.0.%d:80 check inter 2s maxconn 30\n", i, i+1)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nginx.conf", conf(1), []string{"line 4: client_max_body_size: bodies of any size are passed on (", "line 4: limit_req: "}},
		{"nginx.conf", conf(3), []string{"line 4: client_max_body_size: bodies of any size are passed on; it is in lines 4, 5, 6 (", "line 4: limit_req: "}},
		{"nginx.conf", conf(200), []string{"line 4: client_max_body_size: bodies of any size are passed on; it is at 200 places, the last in line 203 (", "limit_req: requests are not limited; it is at 200 places, the last in line 203 ("}},
		{"haproxy.cfg", cfg(3), []string{"line 7: server: connections to a server are not bounded: maxconn; it is in lines 7, 8, 9 (", "line 7: server: servers are not probed: check, inter; it is in lines 7, 8, 9 ("}},
		{"haproxy.cfg", cfg(200), []string{"maxconn; it is at 200 places", "line 7: server: servers are not probed: check, inter; it is at 200 places, the last in line 206 ("}},
	} {
		r, err := convert.Files([]convert.File{{Name: c.name, Data: []byte(c.text)}}, nil, options)
		require.NoError(t, err)
		require.Len(t, r.Lost, len(c.want), written(t, r))
		for i, want := range c.want {
			require.Contains(t, r.Lost[i].Error(), want)
		}
	}
}

// Directives that are in two files are told with both.
func TestWhatIsRepeatedInFilesIsToldOnce(t *testing.T) {
	t.Parallel()
	var files []convert.File
	for _, name := range []string{"a", "b"} {
		files = append(files, convert.File{Name: name + ".conf", Data: []byte("server {\n listen 80;\n server_name " + name + ".example.com;\n gzip on;\n location / { proxy_set_header Host $host; proxy_pass http://10.0.0.1; }\n}\n")})
	}
	r, err := convert.Files(files, nil, options)
	require.NoError(t, err)
	require.Len(t, r.Lost, 1, written(t, r))
	require.Contains(t, r.Lost[0].Error(), "a.conf: line 4: gzip: answers are no longer compressed; it is at 2 places, the last in b.conf (")
}
