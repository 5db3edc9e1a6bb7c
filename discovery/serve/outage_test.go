package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyALastingOutageIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, begun := &outage{log: slog.New(slog.NewTextHandler(&log, nil))}, time.Now()
	waits, ended := errors.New("it waits"), errors.New("it has ended")
	look := func(after time.Duration, err error) string {
		log.Reset()
		s.look(err, begun.Add(after))
		return log.String()
	}
	require.Empty(t, look(0, waits))
	require.Empty(t, look(lasts-time.Millisecond, waits))
	require.Empty(t, look(lasts, nil), "it was a start")

	require.Empty(t, look(time.Minute, waits), "the time before does not count")
	require.Empty(t, look(time.Minute+lasts/2, waits))
	require.Contains(t, look(time.Minute+lasts, waits), "level=WARN msg=\"discovery cannot give machines certificates now")
	require.Empty(t, look(2*time.Minute, waits), "it is said once")
	require.Contains(t, look(3*time.Minute, ended), "it has ended")
	over := look(4*time.Minute, nil)
	require.Contains(t, over, "level=INFO msg=\"discovery can give machines certificates\"")
	require.Contains(t, strings.TrimSpace(over), "could_not_for=3m0s")
	require.Empty(t, look(5*time.Minute, nil))
}
