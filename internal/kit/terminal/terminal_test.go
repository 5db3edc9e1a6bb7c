package terminal_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// shown maps texts to their escaped form on one line.
var shown = map[string]string{
	"":                              "",
	"shop/cart: GET /x?a=b (100 %)": "shop/cart: GET /x?a=b (100 %)",
	"Grüße, 你好, שלום, e\u0301, 👍":    "Grüße, 你好, שלום, e\u0301, 👍",
	"title \x1b]0;owned\a":           `title \u001b]0;owned\u0007`,
	"one\ntwo\tthree\rover":          `one\ntwo\tthree\u000dover`,
	"C1 \u009b31m and \u0085":        `C1 \u009b31m and \u0085`,
	"del \x7f\x08":                   `del \u007f\u0008`,
	"bidi \u202egnp.exe\u2066\u200f": `bidi \u202egnp.exe\u2066\u200f`,
	"lines \u2028\u2029":             `lines \u2028\u2029`,
	"hidden \u200b\ufeff\U000e0041":  `hidden \u200b\ufeff\udb40\udc41`,
	"bytes \xff\xc3 x":               `bytes \xff\xc3 x`,
}

func TestControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range shown {
		require.Equal(t, want, terminal.Line(text))
	}
	require.Equal(t, "a\tb\nc\\u001b\n", terminal.Text("a\tb\nc\x1b\n"))
}

func TestWriterEscapesAcrossSplitWrites(t *testing.T) {
	t.Parallel()
	for text, want := range shown {
		for _, size := range []int{1, 2, 3, len(text) + 1} {
			var b bytes.Buffer
			w := terminal.NewWriter(&b, nil)
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				_, err := w.Write(rest[:min(size, len(rest))])
				require.NoError(t, err)
			}
			want := terminal.Text(text)
			require.Equal(t, want, b.String())
		}
		require.NotContains(t, want, "\x1b")
	}
}

func TestEscapedJSONMeansTheSame(t *testing.T) {
	t.Parallel()
	for text := range shown {
		before, err := json.Marshal(text)
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = terminal.NewWriter(&b, nil).Write(before)
		require.NoError(t, err)
		var is, was string
		require.NoError(t, json.Unmarshal(before, &was))
		require.NoError(t, json.Unmarshal(b.Bytes(), &is))
		require.Equal(t, was, is)
	}
}

func TestStylesAreShownOnlyWhenEnabled(t *testing.T) {
	t.Parallel()
	text := terminal.Line(terminal.Red.Paint("no\x1b[0m")) + "\n"
	for styles, want := range map[bool]string{true: "\x1b[31mno\\u001b[0m\x1b[0m\n", false: "no\\u001b[0m\n"} {
		var b bytes.Buffer
		_, err := terminal.NewWriter(&b, func() bool { return styles }).Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, b.String())
	}
	require.Empty(t, terminal.Bold.Paint(""))
	require.False(t, utf8.ValidString(terminal.Bold.Paint("x")), "style bytes must not be valid UTF-8")
}
