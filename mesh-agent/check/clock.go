package check

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Peer is what a server shows of itself, to whoever asks.
type Peer struct{ NotBefore, NotAfter time.Time }

// Look asks a server for its certificate, without believing it and without telling it anything.
func Look(ctx context.Context, address string) (Peer, error) {
	dialer := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // whether it is the right one is asked elsewhere; a wrong clock would make that fail
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
	setClock  = "set the clock, and keep it set: timedatectl set-ntp true, or install chrony"
	lookLimit = 3 * time.Second
)

// Clock is whether this machine's time is right, as far as its kernel and the certificates of discoveries tell.
func Clock(now func() time.Time, synchronized func() (bool, error), servers []string) Check {
	return func(ctx context.Context) []Finding {
		for _, server := range servers {
			ctx, cancel := context.WithTimeout(ctx, lookLimit)
			peer, err := Look(ctx, server)
			cancel()
			if err != nil {
				continue // that it cannot be reached is told elsewhere
			}
			if found, wrong := peer.against(now(), server); wrong {
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

// against tells whether the certificate could not be in use at this time: then the clock is wrong, for discovery uses it.
func (p Peer) against(now time.Time, server string) (Finding, bool) {
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

// Discovery is whether each replica can be reached, and is who it should be.
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
				all[i].State = Warning // another is enough
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
