package truth_test

import (
	"fmt"
	"time"
)

// claims are what may never be untrue, however many parts are dead. Each returns what is a lie in a
// reading. Another view of the database is another claim.
var claims = []func(*observer, *reading) []string{noProxyIsShownToRunWhatItDoesNot}

// noProxyIsShownToRunWhatItDoesNot looks at rows of connected proxies. While nobody has noticed that
// a proxy has left, its row is held to what it had then.
func noProxyIsShownToRunWhatItDoesNot(o *observer, r *reading) (lies []string) {
	for _, s := range r.states {
		p, shown := r.rows[s.id]
		if !shown || p.State == "away" {
			continue
		}
		of, known := s.of(p)
		if !known {
			lies = append(lies, fmt.Sprintf("%s: %s is shown as %s", clock(time.Now()), s, p))
		} else if lack := o.chronicle.lacks(o.mesh.marks, p.Namespace, p.Runs, of.has); lack != "" {
			lies = append(lies, fmt.Sprintf("%s: %s is shown as %s, and lacks %s", clock(time.Now()), s, p, lack))
		}
	}
	return lies
}
