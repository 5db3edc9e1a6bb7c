package mcp

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// longestComeBack is how long a server may keep a client away by a word.
const longestComeBack = time.Minute

// ComeBack is how long a server that has too much to do asks a client to stay away; 0 if it does not.
func ComeBack(err error) time.Duration {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted {
		return 0
	}
	for _, d := range s.Details() {
		if retry, is := d.(*errdetails.RetryInfo); is {
			return min(max(0, retry.GetRetryDelay().AsDuration()), longestComeBack)
		}
	}
	return 0
}
