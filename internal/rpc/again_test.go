package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestACallIsMadeAgainWhoseConnectionBroke(t *testing.T) {
	t.Parallel()
	broken := status.Error(codes.Unavailable, "error reading from server: EOF")
	busy, err := status.New(codes.Unavailable, "too many wait").WithDetails(&errdetails.ErrorInfo{Reason: "REFUSAL_UNAVAILABLE"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		comes []error // for each try
		tries int
		want  error
	}{
		"it works":                         {[]error{nil}, 1, nil},
		"it breaks once":                   {[]error{broken, nil}, 2, nil},
		"the server is away":               {[]error{broken, broken, broken, nil}, mostTries, broken},
		"the server says that it cannot":   {[]error{busy.Err(), nil}, 1, busy.Err()},
		"the server says no":               {[]error{broken, status.Error(codes.PermissionDenied, "no"), nil}, 2, status.Error(codes.PermissionDenied, "no")},
		"nobody waits for the answer more": {[]error{status.Error(codes.DeadlineExceeded, "late"), nil}, 1, status.Error(codes.DeadlineExceeded, "late")},
	} {
		tries := 0
		answer, err := Again(func() (int, error) {
			tries++
			return tries, c.comes[tries-1]
		})
		require.Equal(t, c.want, err, name)
		require.Equal(t, []int{c.tries, c.tries}, []int{tries, answer}, name)
	}
}
