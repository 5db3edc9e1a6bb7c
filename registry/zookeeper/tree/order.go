package tree

import (
	"fmt"
	"time"
)

// order keeps what was told from going back to how it was before. One server after the other is asked,
// and one that has lost the others may not know what another has told. Where each session is a
// transaction it gives none. Where sessions are local (localSessionsEnabled) it gives them, and answers
// a sync at once, because it takes itself for the leader still.
type order struct {
	newest int64     // the newest transaction that was seen
	behind time.Time // since when every server knows less; zero while none does
}

// longestBehind is for how many times the patience a server that knows less than another has told is
// not believed. A leader that has lost the others finds out within syncLimit, ten seconds by default.
// If all know less for longer, ZooKeeper has lost its disks or was restored from a backup.
const longestBehind = 4

// seen notes what a server knows that was believed.
func (o *order) seen(transaction int64) {
	if o.behind.IsZero() {
		o.newest = max(o.newest, transaction)
	}
}

// unknown notes that no server has said what it knows.
func (o *order) unknown() { o.behind = time.Time{} }

// check returns an error if a server that knows no newer transaction than this must not be believed.
func (o *order) check(transaction int64, longest time.Duration) error {
	if transaction < o.newest {
		if o.behind.IsZero() {
			o.behind = time.Now()
		}
		if time.Since(o.behind) < longest {
			return fmt.Errorf("it lags behind: it knows transactions until %#x, and ZooKeeper was at %#x before. "+
				"It may have lost the others; if none knows more, this is believed after %s", transaction, o.newest, longest)
		}
	}
	o.newest, o.behind = transaction, time.Time{}
	return nil
}
