package check

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Peer is the validity of a server's certificate.
type Peer struct{ NotBefore, NotAfter time.Time }

// FetchCertificate connects to a server and returns its certificate's validity. It does not verify
// the certificate and sends nothing.
func FetchCertificate(ctx context.Context, address string) (Peer, error) {
	dialer := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // verified elsewhere; here a wrong clock would make verification fail
		NextProtos:         []string{"h2"},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return Peer{}, err
	}
	defer conn.Close()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	return Peer{leaf.NotBefore, leaf.NotAfter}, nil
}

const (
	setClock     = "set the clock, and keep it set: timedatectl set-ntp true, or install chrony"
	fetchTimeout = 3 * time.Second
)

// Clock checks this machine's time against discovery's certificates and the kernel's
// synchronization state.
func Clock(now func() time.Time, synchronized func() (bool, error), servers []string) Check {
	return func(ctx context.Context) []Finding {
		for _, server := range servers {
			ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
			peer, err := FetchCertificate(ctx, server)
			cancel()
			if err != nil {
				continue // reported elsewhere
			}
			if found, wrong := peer.checkTime(now(), server); wrong {
				return []Finding{found}
			}
		}
		switch synced, err := synchronized(); {
		case err != nil:
			return []Finding{warn("clock", setClock, "whether the clock is synchronized cannot be told: %v", err)}
		case !synced:
			return []Finding{warn("clock", setClock, "the kernel says that nobody synchronizes the clock; certificates are valid for hours, and need it to be right")}
		}
		return []Finding{ok("clock", "synchronized")}
	}
}

// checkTime reports whether the certificate is outside its validity now. As discovery uses it, the
// clock must be wrong.
func (p Peer) checkTime(now time.Time, server string) (Finding, bool) {
	switch {
	case now.Before(p.NotBefore):
		return fail("clock", setClock, "this machine's clock is behind, by %s at least: the certificate of discovery at %s begins at %s",
			p.NotBefore.Sub(now).Round(time.Second), server, p.NotBefore.UTC().Format(time.RFC3339)), true
	case now.After(p.NotAfter):
		return fail("clock", setClock+"; if it is right, that discovery needs a new certificate", "the certificate of discovery at %s ended at %s, %s ago by this machine's clock",
			server, p.NotAfter.UTC().Format(time.RFC3339), now.Sub(p.NotAfter).Round(time.Second)), true
	}
	return Finding{}, false
}

// Discovery checks that the replicas can be reached and are discoveries.
func Discovery(servers []string, connect func(ctx context.Context, server string) (name string, err error)) Check {
	return func(ctx context.Context) (all []Finding) {
		if len(servers) == 0 {
			return []Finding{fail("discovery", "say where it is: --discovery HOST:15012, or join: mesh-agent join --server HOST:15012",
				"nobody has said where discovery is")}
		}
		reached := 0
		for _, server := range servers {
			host, _, _ := net.SplitHostPort(server)
			name, err := connect(ctx, server)
			if err != nil {
				all = append(all, fail("discovery", "see that "+host+" is up, and that a firewall lets this machine connect to "+server, "%s: %v", server, err))
				continue
			}
			reached++
			all = append(all, ok("discovery", "%s answers%s", server, named(name)))
		}
		for i := range all {
			if all[i].State == Failure && reached > 0 {
				all[i].State = Warning // one replica is enough
			}
		}
		return all
	}
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return ", and is " + name
}
