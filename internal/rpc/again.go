package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mostTries is how often a call is made at the most.
const mostTries = 3

// Again makes a call, and at once again if the connection broke under it: as all do that show a
// certificate when there is a newer one, and those to a server that is started anew. It is for
// calls that do no harm when they come twice. What the server itself says, with details, stands;
// and one that cannot be reached is not waited for.
func Again[T any](call func() (T, error)) (answer T, err error) {
	for range mostTries {
		answer, err = call()
		if s := status.Convert(err); s.Code() != codes.Unavailable || len(s.Details()) > 0 {
			break
		}
	}
	return answer, err
}
