package rollout

import (
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	// usualWait and longestWait are how long a wait lasts that does not say, and may last.
	usualWait   = 30 * time.Second
	longestWait = time.Hour
)

// enough is how many proxies have to run a revision: so many, or else a share.
type enough struct {
	count int
	share float64
}

// enoughOf reads what a request asks for.
func enoughOf(req *adminv1.WaitUntilRunRequest) (enough, error) {
	switch asked := req.GetEnough().(type) {
	case *adminv1.WaitUntilRunRequest_Count:
		if asked.Count < 1 {
			return enough{}, status.Errorf(codes.InvalidArgument, "count: %d is no number of proxies to wait for: give one from 1", asked.Count)
		}
		return enough{count: int(asked.Count)}, nil
	case *adminv1.WaitUntilRunRequest_Share:
		if !(asked.Share >= 0 && asked.Share <= 1) { // also NaN
			return enough{}, status.Errorf(codes.InvalidArgument, "share: %v is no share of the proxies: give a number from 0 to 1", asked.Share)
		}
		return enough{share: asked.Share}, nil
	}
	return enough{share: 1}, nil
}

// timeoutOf reads how long a request waits.
func timeoutOf(req *adminv1.WaitUntilRunRequest) (time.Duration, error) {
	if req.GetTimeout() == nil {
		return usualWait, nil
	}
	timeout := req.GetTimeout().AsDuration()
	if req.GetTimeout().CheckValid() != nil || timeout < 0 || timeout > longestWait {
		return 0, status.Errorf(codes.InvalidArgument, "timeout: %s is no time to wait: give one of an hour at most", timeout)
	}
	return timeout, nil
}

// census is how many proxies there are, in regard to a revision.
type census struct{ known, connected, running, refusing int }

// count counts the proxies of some namespaces, or of all if they are nil. One refuses a revision if
// it was sent it, refuses something, and so runs an older one.
func count(tallies []rollout.Tally, revision int64, namespaces []string) (c census) {
	for _, t := range tallies {
		if namespaces != nil && !slices.Contains(namespaces, t.Namespace) {
			continue
		}
		c.known += t.Count
		switch {
		case t.State == rollout.Away:
			continue
		case t.Runs >= revision:
			c.running += t.Count
		case t.State == rollout.Refused && t.Sent >= revision:
			c.refusing += t.Count
		}
		c.connected += t.Count
	}
	return c
}

// of is how many of those connected have to run the revision.
func (e enough) of(c census) int {
	if e.count > 0 {
		return e.count
	}
	const blur = 1e-9 // of floating-point numbers: 57 of 100 are 0.57, although 100*0.57 is more
	return int(math.Ceil(e.share*float64(c.connected) - blur))
}

// reached reports whether enough proxies run the revision. If all are away they may well come back
// at another server, and are waited for.
func (e enough) reached(c census) bool {
	return c.running >= e.of(c) && (e.count > 0 || e.share == 0 || c.connected > 0 || c.known == 0)
}

// refused reports whether too many proxies refuse the revision. Of a number of proxies, more may
// still connect while there are fewer.
func (e enough) refused(c census) bool {
	return c.refusing > 0 && c.connected >= e.of(c) && c.connected-c.refusing < e.of(c)
}
