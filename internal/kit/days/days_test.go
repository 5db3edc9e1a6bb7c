package days_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/days"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "90d": 2160 * time.Hour, "1d12h": 36 * time.Hour, "1d1.5h": 25*time.Hour + 30*time.Minute, "-2d": -48 * time.Hour, "-1d1h": -25 * time.Hour, "+7d": 168 * time.Hour,
		"30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1500ms": 1500 * time.Millisecond,
	} {
		got, err := days.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "90", "90 d", "1.5d", "1d2", "1d-2h", "12h1d", "2d1d", "1w", "999999999d", "99999999999999999999d", "ten days"} {
		_, err := days.Parse(text)
		require.EqualError(t, err, `"`+text+`" is not a time with its unit, such as 30m, 12h or 90d`)
	}
}

func TestAFlagIsPrintedAsItIsWritten(t *testing.T) {
	t.Parallel()
	var d time.Duration
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	days.Var(f, &d, "for", 90*24*time.Hour, "how long")
	require.Contains(t, f.FlagUsages(), "--for duration   how long (default 90d)")
	for _, text := range []string{"7d", "36h0m0s", "0"} {
		require.NoError(t, f.Set("for", text))
		require.Equal(t, text, f.Lookup("for").Value.String())
	}
	require.Error(t, f.Set("for", "soon"))
	require.Zero(t, d)
	days.Var(f, &d, "within", 0, "until when")
	require.Contains(t, f.FlagUsages(), "until when\n")
}
