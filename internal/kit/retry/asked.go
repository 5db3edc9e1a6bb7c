package retry

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// maxAsked bounds the pause that a server can ask for.
const maxAsked = time.Minute

// Asked returns how long a gRPC server that is overloaded asks its client to wait; 0 if it does
// not.
func Asked(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return min(max(0, info.GetRetryDelay().AsDuration()), maxAsked)
		}
	}
	return 0
}
