package nginxconf_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
)

// written writes directives on a line, so that a test shows what was read.
func written(all []*nginxconf.Directive) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%d:%s", d.Line, d.Name)
		for _, a := range d.Args {
			fmt.Fprintf(&b, " %q", a)
		}
		if d.HasBlock {
			b.WriteString("{" + written(d.Block) + "}")
		}
		b.WriteString(";")
	}
	return b.String()
}

func TestDirectivesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"# nothing\n":                           "",
		"a;\nb c;":                              `1:a;2:b "c";`,
		"a { b 'x y' \"it\\\"s\"; }":            `1:a{1:b "x y" "it\"s";};`,
		"server {\n listen 80;\n # x }\n}":      `1:server{2:listen "80";};`,
		"set $a ${b}c;":                         `1:set "$a" "${b}c";`,
		"location ~ ^/a\\{2\\}/(.*)$ { }":       `1:location "~" "^/a\\{2\\}/(.*)$"{};`,
		"content_by_lua_block {\n f({})\n}\nb;": "1:content_by_lua_block{};4:b;",
		"a\nb\n;":                               `1:a "b";`,
	} {
		got, err := (&nginxconf.Reader{}).Read("nginx.conf", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, written(got), text)
	}
}

func TestWhatIsWrongIsSaidWithItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a;\nb":                    "nginx.conf: line 2: the file ends within a directive: a ; is missing",
		"a {\nb;\n":                "nginx.conf: line 3: the file ends within a block: a } is missing",
		"a;\n}":                    "nginx.conf: line 2: there is a } too many",
		"a 'b":                     "nginx.conf: line 1: a quotation does not end",
		"{":                        "nginx.conf: line 1: a directive has no name",
		strings.Repeat("a {", 100): "nginx.conf: line 1: blocks are nested more than 32 deep",
	} {
		_, err := (&nginxconf.Reader{}).Read("nginx.conf", []byte(text))
		require.EqualError(t, err, want)
	}
}

func TestIncludesAreReplaced(t *testing.T) {
	t.Parallel()
	files := map[string]string{"conf.d/*.conf": "b;", "loop": "include loop;"}
	r := func() *nginxconf.Reader {
		return &nginxconf.Reader{Open: func(pattern string) ([]nginxconf.Opened, error) {
			if text, is := files[pattern]; is {
				return []nginxconf.Opened{{Name: "b.conf", Data: []byte(text)}}, nil
			}
			return nil, nil
		}}
	}
	got, err := r().Read("nginx.conf", []byte("a { include conf.d/*.conf; }\ninclude gone;"))
	require.NoError(t, err)
	require.Equal(t, `1:a{1:b;};2:include "gone";`, written(got))
	_, err = r().Read("nginx.conf", []byte("include loop;"))
	require.ErrorContains(t, err, "files include each other more than 32 deep")
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a;", "a { b 'c' ${d} \\{; }", "x_by_lua_block { { } }", "include a;", "a \"", "}", "# c\n{"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := (&nginxconf.Reader{Open: func(string) ([]nginxconf.Opened, error) { return []nginxconf.Opened{{Name: "again", Data: text}}, nil }}).Read("fuzz", text)
		require.True(t, err == nil || all == nil)
	})
}
