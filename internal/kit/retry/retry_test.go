package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
)

var (
	errAway = errors.New("away")
	errBusy = errors.New("busy")
	steady  = retry.Pauses{First: time.Second, Longest: 8 * time.Second, Growth: 2, Jitter: 1e-9}
)

// within requires a time to be as expected, apart from jitter.
func within(t *testing.T, want, got time.Duration) {
	t.Helper()
	require.InDelta(t, want.Seconds(), got.Seconds(), 0.001)
}

func TestUntilSomethingSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := retry.Loop{Pauses: steady}.Until(t.Context(), func() error {
			if tries++; tries < 6 {
				return errAway
			}
			return nil
		})
		require.NoError(t, err)
		within(t, (1+2+4+8+8)*time.Second, time.Since(began)) // it grows no longer than the longest
	})
}

func TestWhatFailsForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	tries := 0
	err := retry.Loop{Pauses: steady}.Until(t.Context(), func() error {
		tries++
		return retry.Stop(errBusy)
	})
	require.ErrorIs(t, err, errBusy)
	require.Equal(t, 1, tries)
	require.NoError(t, retry.Loop{}.Forever(t.Context(), func(func()) error { return retry.Stop(nil) }))
}

func TestTheLastOfSeveralAttemptsDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, tries, told := time.Now(), 0, 0
		err := retry.Loop{Pauses: steady, Attempts: 3, Failed: func(error, time.Duration) { told++ }}.Until(t.Context(), func() error {
			tries++
			return errAway
		})
		require.ErrorIs(t, err, errAway)
		require.Equal(t, 3, tries)
		require.Equal(t, 2, told, "the last is returned")
		within(t, 3*time.Second, time.Since(began)) // nothing waits after the last
	})
}

func TestTheContextEndsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, retry.Loop{Pauses: steady}.Forever(ctx, func(func()) error { return errAway }), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.False(t, steady.Backoff().Wait(ctx))
	})
}

func TestPausesAreShortAgainAfterSuccess(t *testing.T) {
	t.Parallel()
	for name, works := range map[string]func(works func()) error{
		"it says so":   func(works func()) error { works(); return errAway },
		"it is at end": func(func()) error { return nil },
		"it lasts":     func(func()) error { <-time.After(time.Minute + 1); return errAway },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended, tries, waited := time.Time{}, 0, []time.Duration{}
				err := retry.Loop{Pauses: steady, Stable: time.Minute}.Forever(t.Context(), func(w func()) error {
					if !ended.IsZero() {
						waited = append(waited, time.Since(ended).Round(time.Second))
					}
					defer func() { ended = time.Now() }()
					switch tries++; tries {
					case 4:
						return works(w)
					case 6:
						return retry.Stop(nil)
					}
					return errAway
				})
				require.NoError(t, err)
				require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, time.Second, 2 * time.Second}, waited)
			})
		})
	}
}

func TestAnAttemptCanBeFollowedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		err := retry.Loop{Pauses: steady, Reason: func(error, time.Duration) { t.Error("it is no failure") }}.Until(t.Context(), func() error {
			if tries++; tries < 100 {
				return retry.ErrAtOnce
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, began, time.Now())
	})
}

func TestEachReasonIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all, reasons []string
		next := []error{errAway, errAway, errBusy, nil, errBusy, errAway, retry.Stop(nil)}
		err := retry.Loop{
			Pauses: steady,
			Failed: func(err error, again time.Duration) { all = append(all, err.Error()+again.Round(time.Second).String()) },
			Reason: func(err error, _ time.Duration) { reasons = append(reasons, err.Error()) },
		}.Forever(t.Context(), func(func()) error {
			now := next[0]
			next = next[1:]
			return now
		})
		require.NoError(t, err)
		require.Equal(t, []string{"away1s", "away2s", "busy4s", "busy2s", "away4s"}, all)
		require.Equal(t, []string{"away", "busy", "busy", "away"}, reasons)
	})
}

func TestPausesDiffer(t *testing.T) {
	t.Parallel()
	b := retry.Pauses{First: time.Second, Longest: time.Minute}.Backoff()
	seen := map[time.Duration]bool{}
	for range 100 {
		first := b.Next()
		require.GreaterOrEqual(t, first, 500*time.Millisecond)
		require.LessOrEqual(t, first, 1501*time.Millisecond)
		seen[first] = true
		b.Reset()
	}
	require.Greater(t, len(seen), 50)
}

func TestAServerCanAskForAPause(t *testing.T) {
	t.Parallel()
	asks := func(d time.Duration) error {
		s, err := status.New(codes.ResourceExhausted, "too many").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
		require.NoError(t, err)
		return s.Err()
	}
	require.Equal(t, 700*time.Millisecond, retry.Asked(asks(700*time.Millisecond)))
	require.Equal(t, time.Minute, retry.Asked(asks(time.Hour)), "nobody is sent away for long")
	require.Zero(t, retry.Asked(asks(-time.Hour)))
	require.Zero(t, retry.Asked(errAway))
	require.Zero(t, retry.Asked(nil))
}
