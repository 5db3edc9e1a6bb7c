package mcp

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxRetryDelay bounds the delay that a server can ask for.
const maxRetryDelay = time.Minute

// RetryDelay returns how long an overloaded server asks the client to wait; 0 if it does not.
func RetryDelay(err error) time.Duration {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted {
		return 0
	}
	for _, d := range s.Details() {
		if retry, is := d.(*errdetails.RetryInfo); is {
			return min(max(0, retry.GetRetryDelay().AsDuration()), maxRetryDelay)
		}
	}
	return 0
}
